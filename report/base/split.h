// Splits text. (absl::StrSplit does not accept std::string_view if abseil was built for an older C++ standard.)
#ifndef HOLDFAST_REPORT_BASE_SPLIT_H_
#define HOLDFAST_REPORT_BASE_SPLIT_H_

#include <algorithm>
#include <string_view>
#include <vector>

namespace holdfast {

// Splits `text` at each character that is in `dividers`, and keeps empty parts: "a::b" at ":" gives "a", "", "b". The
// parts point into `text`.
inline std::vector<std::string_view> Split(std::string_view text, std::string_view dividers) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find_first_of(dividers);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Whether `word` is one of `words`, which are divided by blanks.
inline bool HasWord(std::string_view words, std::string_view word) {
  const std::vector<std::string_view> all = Split(words, " ");
  return std::find(all.begin(), all.end(), word) != all.end();
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_SPLIT_H_
