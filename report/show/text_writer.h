// Writes text piece by piece if it is too large for memory: exporting 1,000,000 stacks gives 1 GB. One thread.
#ifndef HOLDFAST_REPORT_SHOW_TEXT_WRITER_H_
#define HOLDFAST_REPORT_SHOW_TEXT_WRITER_H_

#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "fmt/format.h"

namespace holdfast {

// Called with consecutive pieces of text.
using TextSink = std::function<void(std::string_view)>;

// Returns one line of text without the character that separates frames.
inline std::string FrameText(std::string_view name) {
  std::string text(name);
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
    if (c == ';') c = ':';
  }
  return text.empty() ? "?" : text;
}

class TextWriter {
 public:
  explicit TextWriter(const TextSink& sink) : sink_(sink), buffer_(kPiece, '\0') {}
  TextWriter(const TextWriter&) = delete;
  TextWriter& operator=(const TextWriter&) = delete;
  ~TextWriter() { Flush(); }
  TextWriter& operator<<(std::string_view piece) {
    if (piece.size() > buffer_.size() - size_) [[unlikely]] {
      Flush();
      if (piece.size() > buffer_.size()) return sink_(piece), *this;
    }
    std::memcpy(buffer_.data() + size_, piece.data(), piece.size());
    size_ += piece.size();
    return *this;
  }
  TextWriter& operator<<(int64_t number) {
    const fmt::format_int digits(number);
    return *this << std::string_view(digits.data(), digits.size());
  }
  template <typename... Args>
  void Print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::memory_buffer made;
    fmt::format_to(std::back_inserter(made), format, std::forward<Args>(args)...);
    *this << std::string_view(made.data(), made.size());
  }

 private:
  static constexpr size_t kPiece = 1 << 20;
  void Flush() {
    if (size_ > 0) sink_(std::string_view(buffer_).substr(0, size_));
    size_ = 0;
  }
  const TextSink& sink_;
  std::string buffer_;
  size_t size_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_TEXT_WRITER_H_
