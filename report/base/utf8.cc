#include "report/base/utf8.h"

#include <algorithm>

namespace holdfast {

// Returns the length of the UTF-8 character at the start of `text`, or 0 if it is invalid: an overlong form, a
// surrogate, or above U+10FFFF (Unicode 15, table 3-7).
static size_t Utf8Length(std::string_view text) {
  const auto at = [&](size_t i) -> unsigned { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0; };
  const auto follows = [&](size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xc2) return 0;
  if (first < 0xe0) return follows(1) ? 2 : 0;
  if (first < 0xf0) {
    if (!follows(1) || !follows(2)) return 0;
    if (first == 0xe0 && at(1) < 0xa0) return 0;
    if (first == 0xed && at(1) > 0x9f) return 0;
    return 3;
  }
  if (first < 0xf5) {
    if (!follows(1) || !follows(2) || !follows(3)) return 0;
    if (first == 0xf0 && at(1) < 0x90) return 0;
    if (first == 0xf4 && at(1) > 0x8f) return 0;
    return 4;
  }
  return 0;
}

size_t ValidUtf8Prefix(std::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const size_t length = Utf8Length(text.substr(i));
    if (length == 0) break;
    i += length;
  }
  return i;
}

std::string RepairUtf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size() + 8);
  while (!text.empty()) {
    const size_t good = ValidUtf8Prefix(text);
    repaired.append(text.substr(0, good));
    text.remove_prefix(good);
    if (text.empty()) break;
    repaired.append("\xef\xbf\xbd");
    text.remove_prefix(1);
  }
  return repaired;
}

size_t WidthOf(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace holdfast
