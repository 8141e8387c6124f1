// CumulativeValues as bytes, and in a file: what was told of a process outlives who told it.
//
//   OUT/.delta/<process>.<kind>     what `delta_*` of /debug/pprof told last; a server that is started again goes on from there
#ifndef HOLDFAST_REPORT_LIVE_KEPT_VALUES_H_
#define HOLDFAST_REPORT_LIVE_KEPT_VALUES_H_

#include <optional>
#include <string>
#include <string_view>

#include "report/live/profile_delta.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// A message of fields from 2 on: field 1 is the caller's, before or after it.
std::string EncodeValues(const CumulativeValues& values);
// Nothing where the bytes are not one.
std::optional<CumulativeValues> DecodeValues(std::string_view bytes);

// In `out`, the output folder of the process. Nothing where none were kept, and where they cannot be read.
std::optional<CumulativeValues> ReadKeptValues(const std::string& out, const std::string& process, ProfileKind kind);
// Files of processes that nobody has asked about for a week go. A folder that cannot be written to keeps nothing.
void KeepValues(const std::string& out, const std::string& process, ProfileKind kind, const CumulativeValues& values);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LIVE_KEPT_VALUES_H_
