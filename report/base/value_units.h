// Reads and prints sizes, times and counts. Options, tables and reports all use these functions.
//
// Reading    sizes take B, KiB, MiB, GiB (1024), KB, MB, GB (1000); a number without a unit is bytes. Times take ns, us, ms,
//            s, m, h; only 0 may omit the unit. Fractions are allowed ("1.5MiB"), signs and blanks are not.
// Printing   as pprof does, with exact unit names: 1.50MiB, 512KiB, 23.45ms, 0.
// Pure functions, any thread.
#ifndef HOLDFAST_REPORT_BASE_VALUE_UNITS_H_
#define HOLDFAST_REPORT_BASE_VALUE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace holdfast {

// The message of an error quotes the text and names the valid units: `"5 parsecs" is not a size (a number and B, KiB,
// …)`.
absl::StatusOr<uint64_t> ParseByteSize(std::string_view text);
absl::StatusOr<uint64_t> ParseTimeNs(std::string_view text);

std::string FormatSize(int64_t bytes);
std::string FormatTimeNs(int64_t ns);
// Prints two significant digits, for imprecise values: "1.1ms", "20ms", "210ms". Prints "-" for negative (unknown)
// values.
std::string FormatRoughTimeNs(int64_t ns);
// Prints how long something lasted or will last, for use in a sentence: "250ms", "25.1s", "5min 12s", "3h 12min", "4.5
// days". For values of a profile use FormatTimeNs. The page has the same rule (report/page/web/src/core/units.ts).
std::string FormatDuration(int64_t ns);
// "2026-11-23T13:20:11.402Z", from nanoseconds since 1970.
std::string FormatWallTime(int64_t wall_ns);

// Prints a value of a profile. `unit` is the value's unit ("bytes", "nanoseconds", "count", …), `output_unit` the
// requested one:
//   "" or "auto"      the largest unit that gives at least 1
//   "raw", or `unit`  the plain number
//   a size or time unit (KiB, kb, ms, seconds …)   that unit; ignored if it does not fit `unit`
std::string FormatValue(int64_t value, std::string_view unit, std::string_view output_unit);

// Prints a value in the unit family of a size that the user wrote: 2.5MB beside "3MB", 2.38MiB beside "3MiB", 2500000B
// beside "3000000". Values that are not bytes are printed as with "auto".
std::string FormatLike(int64_t value, std::string_view unit, std::string_view size);

// Returns whether FormatValue knows `output_unit`.
bool IsOutputUnit(std::string_view output_unit);

// Returns whether values in `unit` can be printed in `output_unit`. Bytes cannot be printed in ms, nor counts in KiB.
bool FitsUnit(std::string_view unit, std::string_view output_unit);

// Returns the valid output units, for messages: "auto, bytes, KiB, MiB or GiB"; "" for counts.
std::string_view OutputUnitsOf(std::string_view unit);

// "12.34%", "0.012%", "<0.01%", without a sign; "0%" if the total is 0. At most six characters up to 999%.
std::string FormatPercent(int64_t value, int64_t total);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_VALUE_UNITS_H_
