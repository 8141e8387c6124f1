// Text that somebody else wrote, as valid UTF-8. Pure functions, any thread.
#ifndef HOLDFAST_REPORT_BASE_UTF8_H_
#define HOLDFAST_REPORT_BASE_UTF8_H_

#include <cstddef>
#include <string>
#include <string_view>

namespace holdfast {

// The length of the valid UTF-8 that `text` begins with; text.size() when all of it is valid.
size_t ValidUtf8Prefix(std::string_view text);

// `text` with each byte that is no part of valid UTF-8 replaced by U+FFFD.
std::string RepairUtf8(std::string_view text);

// How many characters of valid UTF-8 it is: its width in a table.
size_t WidthOf(std::string_view text);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_UTF8_H_
