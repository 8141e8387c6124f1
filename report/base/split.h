// Text in parts. (abseil's StrSplit, where it was built for an older C++, does not take std::string_view.)
#ifndef HOLDFAST_REPORT_BASE_SPLIT_H_
#define HOLDFAST_REPORT_BASE_SPLIT_H_

#include <string_view>
#include <vector>

namespace holdfast {

// The parts of `text` between any of the `dividers`, also empty ones: "a::b" at ":" gives "a", "", "b". They point into
// `text`.
inline std::vector<std::string_view> Split(std::string_view text, std::string_view dividers) {
  std::vector<std::string_view> parts;
  while (true) {
    const size_t end = text.find_first_of(dividers);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_SPLIT_H_
