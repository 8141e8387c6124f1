// The profile of a kind that left no file because nothing happened: no thread waited, nothing was allocated.
//
// A process writes no file of a kind without samples. Its other files say which kinds were recorded (`profiled`), so a
// missing file of one of these is a profile of zeros, and a comparison or a budget can be judged.
#ifndef HOLDFAST_REPORT_PROFILES_ZERO_PROFILE_H_
#define HOLDFAST_REPORT_PROFILES_ZERO_PROFILE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/profiles/profile_set.h"

namespace holdfast {

// A profile of zeros, if all of `folders` are folders, hold no file of `kind`, and say of each process that `kind` was recorded.
// Reads the newest file of each process and kind.
std::optional<ProfileFile> ZeroProfileIn(const std::vector<std::string>& folders, std::string_view kind);

// The kinds that have a metric, the usual one first.
std::vector<std::string_view> KindsWithMetric(std::string_view metric);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_ZERO_PROFILE_H_
