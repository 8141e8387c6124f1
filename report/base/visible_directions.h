// Makes characters that reorder text visible, wherever names are shown.
#ifndef HOLDFAST_REPORT_BASE_VISIBLE_DIRECTIONS_H_
#define HOLDFAST_REPORT_BASE_VISIBLE_DIRECTIONS_H_

#include <string>
#include <string_view>
#include <utility>

namespace holdfast {

// Shows characters that reorder text as [U+202E]: with them a name could look like another one.
inline std::string WithVisibleDirections(std::string_view text) {
  constexpr std::pair<std::string_view, std::string_view> kMarks[] = {
      {"\xd8\x9c", "[U+061C]"},     {"\xe2\x80\x8e", "[U+200E]"}, {"\xe2\x80\x8f", "[U+200F]"},
      {"\xe2\x80\xaa", "[U+202A]"}, {"\xe2\x80\xab", "[U+202B]"}, {"\xe2\x80\xac", "[U+202C]"},
      {"\xe2\x80\xad", "[U+202D]"}, {"\xe2\x80\xae", "[U+202E]"}, {"\xe2\x81\xa6", "[U+2066]"},
      {"\xe2\x81\xa7", "[U+2067]"}, {"\xe2\x81\xa8", "[U+2068]"}, {"\xe2\x81\xa9", "[U+2069]"}};
  std::string shown(text);
  if (text.find_first_of("\xd8\xe2") == std::string_view::npos) return shown;
  for (const auto& [mark, name] : kMarks) {
    for (size_t at = 0; (at = shown.find(mark, at)) != std::string::npos; at += name.size()) {
      shown.replace(at, mark.size(), name);
    }
  }
  return shown;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_VISIBLE_DIRECTIONS_H_
