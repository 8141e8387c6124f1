// Reads numbers from untrusted bytes. Past the end all reads return 0, and ok() returns false from then on, so a loop
// need only test ok() once in each iteration. Little-endian, like x86-64.
#ifndef HOLDFAST_REPORT_NAMES_DWARF_CURSOR_H_
#define HOLDFAST_REPORT_NAMES_DWARF_CURSOR_H_

#include <cstdint>
#include <cstring>
#include <string_view>

namespace holdfast::dwarf {

class Cursor {
 public:
  explicit Cursor(std::string_view bytes, uint64_t at = 0)
      : begin_(bytes.data()),
        at_(bytes.data() + (at < bytes.size() ? at : bytes.size())),
        end_(bytes.data() + bytes.size()),
        ok_(at <= bytes.size()) {}

  bool ok() const { return ok_; }
  bool AtEnd() const { return at_ == end_; }
  uint64_t offset() const { return static_cast<uint64_t>(at_ - begin_); }
  uint64_t left() const { return static_cast<uint64_t>(end_ - at_); }

  uint8_t U8() { return Fixed<uint8_t>(); }
  uint16_t U16() { return Fixed<uint16_t>(); }
  uint32_t U32() { return Fixed<uint32_t>(); }
  uint64_t U64() { return Fixed<uint64_t>(); }
  uint32_t U24() {
    const uint32_t low = U16();
    return low | uint32_t{U8()} << 16;
  }
  // Reads an offset of 4 bytes (32-bit DWARF) or 8 bytes (64-bit DWARF).
  uint64_t Offset(uint8_t size) { return size == 8 ? U64() : U32(); }

  uint64_t Uleb() {
    // The most frequent case.
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) return static_cast<uint8_t>(*at_++);
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
      const uint8_t byte = U8();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80 || !ok_) return value;
    }
  }
  int64_t Sleb() {
    uint64_t value = 0;
    for (unsigned shift = 0;;) {
      const uint8_t byte = U8();
      if (shift < 64) value |= uint64_t{byte & 0x7fu} << shift;
      shift += 7;
      if (byte >= 0x80 && ok_) continue;
      if (shift < 64 && (byte & 0x40) != 0) value |= ~uint64_t{0} << shift;
      return static_cast<int64_t>(value);
    }
  }

  // Reads up to the next zero byte and skips that byte.
  std::string_view CString() {
    const void* zero = std::memchr(at_, 0, left());
    if (zero == nullptr) return Fail(), std::string_view();
    const std::string_view text(at_, static_cast<size_t>(static_cast<const char*>(zero) - at_));
    at_ += text.size() + 1;
    return text;
  }
  std::string_view Bytes(uint64_t size) {
    if (size > left()) return Fail(), std::string_view();
    const std::string_view bytes(at_, size);
    at_ += size;
    return bytes;
  }
  void Skip(uint64_t size) {
    if (size > left()) return Fail();
    at_ += size;
  }

 private:
  template <typename T>
  T Fixed() {
    T value = 0;
    if (left() < sizeof(T)) return Fail(), value;
    std::memcpy(&value, at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  void Fail() {
    ok_ = false;
    at_ = end_;
  }

  const char* begin_;
  const char* at_;
  const char* end_;
  bool ok_;
};

}  // namespace holdfast::dwarf

#endif  // HOLDFAST_REPORT_NAMES_DWARF_CURSOR_H_
