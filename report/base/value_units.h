// Sizes, times and counts as people write and read them. One place for options, tables and reports.
//
// Reading    sizes take B, KiB, MiB, GiB (1024), KB, MB, GB (1000); a bare number is bytes. Times take ns, us, ms,
//            s, m, h; only 0 may stand without a unit. Fractions are fine ("1.5MiB"), signs and blanks are not.
// Printing   as pprof does, with exact unit names: 1.50MiB, 512KiB, 23.45ms, 0.
// Pure functions, any thread.
#ifndef HOLDFAST_REPORT_BASE_VALUE_UNITS_H_
#define HOLDFAST_REPORT_BASE_VALUE_UNITS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace holdfast {

// The message of an error names the text and what is taken: `"5 parsecs" is not a size (a number and B, KiB, …)`.
absl::StatusOr<uint64_t> ParseByteSize(std::string_view text);
absl::StatusOr<uint64_t> ParseTimeNs(std::string_view text);

std::string FormatSize(int64_t bytes);
std::string FormatTimeNs(int64_t ns);
// Two digits, for what is not known to more: "1.1ms", "20ms", "210ms"; "-" below 0: not known.
std::string FormatRoughTimeNs(int64_t ns);
// How long something lasted or will last, in a sentence: "250ms", "25.1s", "5min 12s", "3h 12min", "4.5 days". A value of a
// profile is FormatTimeNs's. The page has the same rule (report/web/src/core/units.ts).
std::string FormatDuration(int64_t ns);

// A value of a profile whose unit is `unit` ("bytes", "nanoseconds", "count", …), in `output_unit`:
//   "" or "auto"      the largest unit that gives at least 1
//   "raw", or `unit`  the plain number
//   a size or time unit (KiB, kb, ms, seconds …)   in that one; ignored where it does not fit `unit`
std::string FormatValue(int64_t value, std::string_view unit, std::string_view output_unit);

// The same in the family of units of a size that a person wrote: 2.5MB beside "3MB", 2.38MiB beside "3MiB", 2500000B beside "3000000".
// Values that are no bytes are as with "auto".
std::string FormatLike(int64_t value, std::string_view unit, std::string_view size);

// Whether FormatValue knows `output_unit`.
bool IsOutputUnit(std::string_view output_unit);

// Whether values in `unit` can be printed in `output_unit`: no bytes in ms, no counts in KiB.
bool FitsUnit(std::string_view unit, std::string_view output_unit);

// What may be asked for instead: "auto, bytes, KiB, MiB or GiB"; "" for counts.
std::string_view OutputUnitsOf(std::string_view unit);

// "12.34%", "0.012%", "<0.01%"; without a sign; "0%" of nothing. At most six characters up to 999%.
std::string FormatPercent(int64_t value, int64_t total);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_VALUE_UNITS_H_
