// Encodes CumulativeValues and stores them in a file, so that a new server continues where the last one stopped.
//
//   OUT/.delta/<process>.<kind>     the values that `delta_*` of /debug/pprof reported last
#ifndef HOLDFAST_REPORT_FLEET_LIVE_KEPT_VALUES_H_
#define HOLDFAST_REPORT_FLEET_LIVE_KEPT_VALUES_H_

#include <optional>
#include <string>
#include <string_view>

#include "report/fleet/live/profile_delta.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// Returns a message with fields from 2 on. Field 1 is the caller's, written before or after it.
std::string EncodeValues(const CumulativeValues& values);
// Returns nothing if the bytes are invalid.
std::optional<CumulativeValues> DecodeValues(std::string_view bytes);

// `out`: the output folder of the process. Returns nothing if there is no file or if it cannot be read.
std::optional<CumulativeValues> ReadKeptValues(const std::string& out, const std::string& process, ProfileKind kind);
// Stores the values. Deletes files of processes that nobody has asked about for a week. If the folder is not writable,
// stores nothing.
void KeepValues(const std::string& out, const std::string& process, ProfileKind kind, const CumulativeValues& values);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_LIVE_KEPT_VALUES_H_
