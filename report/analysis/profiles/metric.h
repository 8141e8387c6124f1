// The metrics of a profile (its value types): selects one by name, and reads what the records say about it. Pure
// functions, any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_METRIC_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_METRIC_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/profile/profile.h"

namespace holdfast {

// Returns the index of the metric called `name`. `name` may also be an index, or "" for the profile's default. An error
// lists the metrics that exist.
absl::StatusOr<size_t> FindMetric(const Profile& profile, std::string_view name);

// Returns the metric that a viewer opens with: default_sample_type, else the last (as pprof does).
size_t DefaultMetric(const Profile& profile);

// Returns half the width of the 95 % interval of a metric's total, from `total inuse_space: 123456 ± 789`. Returns
// nothing if the profile does not state it (files from other tools).
std::optional<double> HalfWidth(const Profile& profile, size_t metric);
// Writes half the width of that interval, in whole numbers, as a record and as a comment for people; nothing: not known.
void AddTotal(size_t metric, std::optional<double> half_width, Profile* profile);

// Whether nothing is in use, within sampling error, although memory was allocated. Views then show what was allocated.
// The page has the same rule (report/page/web/src/core/metrics.ts). `half_width`: of the 95 % interval of what is in use.
inline bool AllWasFreed(double in_use, double half_width, double allocated) {
  return allocated > 0 && (in_use == 0 || (in_use <= half_width && in_use < allocated / 100));
}

// Returns "heap", "mutex", "block", "map", "threads", "exceptions" or "peak", from the records. For files from other
// tools, returns the names of the value types.
std::string ProfileKindOf(const Profile& profile);

// Returns the mean sampling intervals, oldest first; 0 means off. A profile has one if its interval never changed. A sum
// of files has those of all files, the smallest first. Each comes with the name of its unit. Empty if the profile does
// not state them.
struct Interval {
  int64_t mean;
  std::string_view unit;
};
std::vector<Interval> IntervalsOf(const Profile& profile);

// Returns "all", "1 in 512KiB", "1 in 10us" or "off". If the interval was changed: "1 in 512KiB, then all". For a sum of
// files: "all, 1 in 512KiB". Returns "" if the profile does not state it.
std::string SamplingOf(const Profile& profile);
// Whether the intervals are those of the files of a sum.
bool HasIntervalsInPart(const Profile& profile);

// Returns "148.2MiB at 2023-11-14T22:13:20.000Z": the most that the heap had in use. Adds whether a higher peak may
// have been missed, and whether the stacks of a peak profile belong to another moment. Returns "" if the profile does
// not state it.
std::string PeakOf(const Profile& profile);
// The height of the peak in bytes (heap profiles state it, too), and the bytes of the state in a peak profile.
std::optional<int64_t> PeakBytesOf(const Profile& profile);
std::optional<int64_t> PeakStacksBytesOf(const Profile& profile);
// Returns by how much the height may be too low if every allocation is recorded. 0: exact, or an estimate.
int64_t PeakMissingBytesOf(const Profile& profile);

// Returns the resident memory of the whole process at the time of the snapshot. Returns nothing if the profile does not
// state it because the process had exited.
std::optional<int64_t> ResidentBytesOf(const Profile& profile);

// Whether the ages in a lifetimes profile, or in a part of it, come from a random sample of all blocks that were
// counted.
bool AgesAreDrawn(const Profile& profile);
// Returns which blocks have ages, in words; "" if the profile does not say.
std::string_view AgesKnownIn(const Profile& profile);
// Says so for a sum of these profiles, unless one of them does not say.
void AddAgesKnown(const std::vector<const Profile*>& of, Profile* sum);

// Returns one entry per cause of loss: "312 samples: the stack table was full (raise --max-memory)".
std::vector<std::string> LossesOf(const Profile& profile);
// Returns only the losses that concern single locks, their waits and their holders.
std::vector<std::string> LockLossesOf(const Profile& profile);
// Returns how many samples belong to locks, or to pairs of holder and waiter, that had no room in the table.
uint64_t UnlistedLockSamplesOf(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_METRIC_H_
