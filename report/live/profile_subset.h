// A profile made of some samples of another, with other values: its locations, functions and strings are those that these
// samples name, its comments those that hold for a part (whose it is and how it was sampled; no totals).
//
//   ProfileSubset subset(now);                    // types, times, mappings
//   subset.Add(now, now.samples[7], {1, 2, 3, 4});
//   Profile part = subset.Take();
#ifndef HOLDFAST_REPORT_LIVE_PROFILE_SUBSET_H_
#define HOLDFAST_REPORT_LIVE_PROFILE_SUBSET_H_

#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "report/pprof/profile.h"

namespace holdfast {

class ProfileSubset {
 public:
  enum class Labels { kAll, kTexts };  // kTexts: without numeric ones, under names that servers take

  explicit ProfileSubset(const Profile& now, Labels labels = Labels::kAll);

  // Labels of these names of that profile are left out; of several samples that are equal then, each stays.
  void LeaveOut(absl::flat_hash_set<StringId> names) { left_out_ = std::move(names); }

  // From `before_nanos` to the time of the profile.
  void SetDuration(int64_t before_nanos);
  // `from`: that profile, or one of the same process from another time. Nothing where all values are 0.
  void Add(const Profile& from, const Profile::Sample& sample, std::span<const int64_t> values);

  Profile Take() { return std::move(made_); }

 private:
  StringId String(const Profile& from, StringId id) { return made_.strings.Intern(from.strings[id]); }
  uint32_t AddMapping(const Profile& from, const Profile::Mapping& mapping);
  uint32_t FunctionOf(const Profile& from, const Profile::Function& function);
  uint32_t Location(const Profile& from, const Profile::Location& location);

  const Labels which_labels_;
  Profile made_;
  absl::flat_hash_map<uint64_t, uint32_t> mappings_, locations_;  // by start, by address
  absl::flat_hash_map<std::tuple<StringId, StringId, StringId, int64_t>, uint32_t> functions_;
  std::vector<uint32_t> frames_;
  std::vector<Profile::Label> labels_;
  absl::flat_hash_set<StringId> left_out_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LIVE_PROFILE_SUBSET_H_
