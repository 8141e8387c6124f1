// Handles text of unknown origin as UTF-8. Pure functions, any thread.
#ifndef HOLDFAST_REPORT_BASE_UTF8_H_
#define HOLDFAST_REPORT_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

// Returns the length of the valid UTF-8 at the start of `text`; text.size() if all of it is valid.
size_t ValidUtf8Prefix(std::string_view text);

// Replaces each byte of `text` that is not part of valid UTF-8 with U+FFFD.
std::string RepairUtf8(std::string_view text);

// Returns the number of characters of valid UTF-8, which is the width in a table.
size_t WidthOf(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_UTF8_H_
