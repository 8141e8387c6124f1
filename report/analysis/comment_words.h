// Parses words of a comment that holdfast wrote, in order. A comment may contain anything: readers check each word, and
// skip a line that does not match.
#ifndef HOLDFAST_REPORT_ANALYSIS_COMMENT_WORDS_H_
#define HOLDFAST_REPORT_ANALYSIS_COMMENT_WORDS_H_

#include <algorithm>
#include <charconv>
#include <string_view>
#include <system_error>
#include <type_traits>

namespace holdfast {

// Takes words from the front of a line.
class CommentWords {
 public:
  explicit CommentWords(std::string_view text) : left_(text) {}

  std::string_view Next() {
    while (left_.starts_with(' ')) left_.remove_prefix(1);
    const size_t end = std::min(left_.find(' '), left_.size());
    const std::string_view word = left_.substr(0, end);
    left_.remove_prefix(end);
    return word;
  }
  // Takes a word, and returns whether it is `word`.
  bool Is(std::string_view word) { return Next() == word; }
  template <typename Number>
  bool Take(Number* number, int base = 10) {
    std::string_view word = Next();
    while (word.ends_with(',') || word.ends_with(':')) word.remove_suffix(1);
    if (base == 16 && word.starts_with("0x")) word.remove_prefix(2);
    std::from_chars_result result;
    if constexpr (std::is_floating_point_v<Number>) {
      result = std::from_chars(word.data(), word.data() + word.size(), *number);
    } else {
      result = std::from_chars(word.data(), word.data() + word.size(), *number, base);
    }
    return result.ec == std::errc() && result.ptr == word.data() + word.size() && !word.empty();
  }
  // Takes a number, or "-" as -1.
  bool TakeOrNone(int* number) {
    CommentWords ahead = *this;
    if (ahead.Is("-")) {
      *this = ahead;
      *number = -1;
      return true;
    }
    return Take(number);
  }
  bool empty() const { return left_.find_first_not_of(' ') == std::string_view::npos; }
  std::string_view rest() const { return left_.starts_with(' ') ? left_.substr(1) : left_; }

 private:
  std::string_view left_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_COMMENT_WORDS_H_
