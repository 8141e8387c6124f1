// The profile of a kind that left no file because nothing happened: no thread waited, nothing was allocated.
//
// A process writes no file for a kind without samples. Its other files list the kinds that were recorded (`profiled`).
// If the kind is listed, the missing file means a profile of zeros, so comparisons and budgets can be judged.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_ZERO_PROFILE_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_ZERO_PROFILE_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/analysis/profiles/profile_set.h"

namespace holdfast {

// Returns a profile of zeros if all of `folders` are folders without a file of `kind`, and every process in them
// recorded `kind`. Reads the newest file of each process and kind.
std::optional<ProfileFile> ZeroProfileIn(const std::vector<std::string>& folders, std::string_view kind);

// Returns the kinds that have a metric, the most common first.
std::vector<std::string_view> KindsWithMetric(std::string_view metric);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_ZERO_PROFILE_H_
