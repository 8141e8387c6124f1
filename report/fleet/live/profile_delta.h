// Computes what changed between two snapshots of one process.
//
// A sample is identified by the addresses of its stack and its labels, as collectors identify it; both are equal in all
// snapshots of a process image. Values that are no counters may be negative: memory that is no longer in use, or a wait
// that was in progress and is over.
//
//   Profile before = …, now = …;                     // cumulative, of one process and kind, without names
//   Profile change = ChangeBetween(before, now);     // time of `now`, a duration, no sample that is all zeros
//
//   CumulativeValues reported(before);                   // to keep for long: much smaller than a profile
//   Profile increase = IncreaseSince(reported, now);
#ifndef HOLDFAST_REPORT_FLEET_LIVE_PROFILE_DELTA_H_
#define HOLDFAST_REPORT_FLEET_LIVE_PROFILE_DELTA_H_

#include <array>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "report/profile/profile.h"

namespace holdfast {

// The values of all samples of a cumulative profile, about 50 bytes per sample.
class CumulativeValues {
 public:
  static constexpr size_t kMaxTypes = 4;  // enough for all our profiles
  using Values = std::array<int64_t, kMaxTypes>;

  CumulativeValues() = default;  // of a process that has just begun
  explicit CumulativeValues(const Profile& profile);

  int64_t time_nanos() const { return time_nanos_; }
  void set_time_nanos(int64_t time_nanos) { time_nanos_ = time_nanos; }
  // Returns zeros for an unknown sample.
  Values Of(uint64_t sample) const;
  // all() and Put() serve the encoder and the decoder.
  const absl::flat_hash_map<uint64_t, Values>& all() const { return values_; }
  void Put(uint64_t sample, const Values& values) { values_[sample] = values; }
  // Takes the larger of each value and time. Counters never decrease, in whatever order snapshots are read.
  void RaiseTo(const CumulativeValues& other);
  // Returns equal ids for equal stacks and labels of one process, in every program that computes them. Different
  // samples collide with a probability of 2^-64.
  static uint64_t IdOf(const Profile& profile, const Profile::Sample& sample);

 private:
  int64_t time_nanos_ = 0;
  absl::flat_hash_map<uint64_t, Values> values_;
};

// Returns what happened between the two, as for `seconds=`. Includes values that are no counters, and waits that were
// in progress before and are over.
Profile ChangeBetween(const Profile& before, const Profile& now);

// Returns what to add to the values that were reported before, as godeltaprof and Pyroscope expect it: counters since
// then, and what is in use now. Omits waits in progress, which are reported once, after they end.
Profile IncreaseSince(const CumulativeValues& before, const Profile& now);

// Whether any counter is more than 0. Otherwise the profile only says what is in use.
bool CountsSomething(const Profile& increase);

// Both functions keep the records and comments that apply to a difference (process and sampling). They omit locations that no
// sample uses.

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_LIVE_PROFILE_DELTA_H_
