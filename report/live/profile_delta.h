// What changed between two snapshots of one process.
//
// A sample is known by the addresses of its stack and its labels, as collectors know it (both are equal in all snapshots of
// a process image). Values may be negative where they are no counters: memory that was in use and is not any more, a wait
// that was in progress and is over.
//
//   Profile before = …, now = …;                     // cumulative, of one process and kind, without names
//   Profile change = ChangeBetween(before, now);     // time of `now`, a duration, no sample that is all zeros
//
//   CumulativeValues told(before);                   // for who keeps it long: much smaller than a profile
//   Profile increase = IncreaseSince(told, now);
#ifndef HOLDFAST_REPORT_LIVE_PROFILE_DELTA_H_
#define HOLDFAST_REPORT_LIVE_PROFILE_DELTA_H_

#include <array>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "report/pprof/profile.h"

namespace holdfast {

// The values of every sample of a cumulative profile: some 50 bytes for each.
class CumulativeValues {
 public:
  static constexpr size_t kMostTypes = 4;  // no profile of ours has more
  using Values = std::array<int64_t, kMostTypes>;

  CumulativeValues() = default;  // of a process that has just begun
  explicit CumulativeValues(const Profile& profile);

  int64_t time_nanos() const { return time_nanos_; }
  void set_time_nanos(int64_t time_nanos) { time_nanos_ = time_nanos; }
  // Zeros where there was no such sample.
  Values Of(uint64_t sample) const;
  // For who writes them down and reads them back.
  const absl::flat_hash_map<uint64_t, Values>& all() const { return values_; }
  void Put(uint64_t sample, const Values& values) { values_[sample] = values; }
  // Takes the larger of each value and time: counters never decrease, whatever the order in which they are read.
  void RaiseTo(const CumulativeValues& other);
  // Equal for equal stacks and labels of one process, in every program that asks; others differ (2^-64).
  static uint64_t IdOf(const Profile& profile, const Profile::Sample& sample);

 private:
  int64_t time_nanos_ = 0;
  absl::flat_hash_map<uint64_t, Values> values_;
};

// What happened between the two, as `seconds=` answers it: also of values that are no counters, and of waits that were in
// progress before and are over.
Profile ChangeBetween(const Profile& before, const Profile& now);

// What is to be added to what was told before, as godeltaprof and Pyroscope take it: counters since then, and what is in use
// now as it is. Waits in progress are left out: they are told once, when they are over.
Profile IncreaseSince(const CumulativeValues& before, const Profile& now);

// Whether any counter of it is more than 0: else it only says what is in use.
bool CountsSomething(const Profile& increase);

// Of both, the comments are those that hold for a difference: whose it is and how it was sampled. Locations that no sample
// names are left out.

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LIVE_PROFILE_DELTA_H_
