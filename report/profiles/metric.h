// The metrics of a profile (its value types): choosing one by name, and what the comments say about it.
// Pure functions, any thread.
#ifndef HOLDFAST_REPORT_PROFILES_METRIC_H_
#define HOLDFAST_REPORT_PROFILES_METRIC_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/pprof/profile.h"

namespace holdfast {

// The index of the metric called `name`; a number is an index, "" the profile's default. The message of an error
// names what there is.
absl::StatusOr<size_t> FindMetric(const Profile& profile, std::string_view name);

// The one that a viewer opens with: default_sample_type, else the last (as pprof does).
size_t DefaultMetric(const Profile& profile);

// Half the width of the 95 % interval of a metric's total, from `total inuse_space: 123456 ± 789`; nothing when the
// profile does not say (written by others).
std::optional<double> HalfWidth(const Profile& profile, size_t metric);

// Whether a heap has nothing in use, as far as its samples can tell, of all that was allocated: what was is then the thing to look at.
// The page has the same rule (report/web/src/core/metrics.ts). `half_width`: of the 95 % interval of what is in use.
inline bool AllWasFreed(double in_use, double half_width, double allocated) {
  return allocated > 0 && (in_use == 0 || (in_use <= half_width && in_use < allocated / 100));
}

// "heap", "mutex", "block", "map", "threads", "exceptions", "peak", from the comment; for files of others the names of the value types.
std::string ProfileKindOf(const Profile& profile);

// The comments of a sum of files that had different ones: one for each of these.
inline constexpr std::string_view kIntervalInPart = "interval in part";
// The comment `merged` of a peak that processes share a file for: "the highest of 5 processes".
inline constexpr std::string_view kHighestOf = "the highest of ";

// The mean intervals that were in force, oldest first, 0 = off: of a profile whose interval was never changed, one. Of a sum of
// files those of all of them, the smallest first. With the unit's name. Empty when the profile does not say.
struct Interval {
  int64_t mean;
  std::string_view unit;
};
std::vector<Interval> IntervalsOf(const Profile& profile);

// "every one", "1 in 512KiB", "1 in 10us", "off"; "1 in 512KiB, then every one" when it was changed; "every one, 1 in 512KiB" of
// a sum of files; "" when the profile does not say.
std::string SamplingOf(const Profile& profile);

// "148.2MiB at 2023-11-14T22:13:20.000Z": the most that the heap had in use, whether a higher one may have been missed, and whether the
// stacks of a peak profile are of another moment. "" when the profile does not say.
std::string PeakOf(const Profile& profile);
// The height of the peak in bytes, also in heap profiles, and the bytes of the state in a peak profile.
std::optional<int64_t> PeakBytesOf(const Profile& profile);
std::optional<int64_t> PeakStacksBytesOf(const Profile& profile);
// What the height may miss, where every allocation is recorded; 0: nothing, or it is an estimate.
int64_t PeakMissingBytesOf(const Profile& profile);

// Of the whole process, when the snapshot was made; nothing where it does not say, as it had ended.
std::optional<int64_t> ResidentBytesOf(const Profile& profile);

// Whether the ages of a lifetimes profile, or of a part of it, are those of blocks drawn at random among all that were counted.
bool AgesAreDrawn(const Profile& profile);
// The comment `ages known` of a sum of files that say these; "" if one of them does not say.
std::string AgesKnownInAll(const std::set<std::string>& known);

// One entry for each cause of loss: "312 samples: the stack table was full (raise --max-memory)".
std::vector<std::string> LossesOf(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILES_METRIC_H_
