// Builds a profile from some samples of another, with other values. Copies only the locations, functions and strings
// that these samples use, and the records and comments that apply to a part (process and sampling; no totals).
//
//   ProfileSubset subset(now);                    // types, times, mappings
//   subset.Add(now, now.samples[7], {1, 2, 3, 4});
//   Profile part = subset.Take();
#ifndef HOLDFAST_REPORT_FLEET_LIVE_PROFILE_SUBSET_H_
#define HOLDFAST_REPORT_FLEET_LIVE_PROFILE_SUBSET_H_

#include <cstdint>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "report/profile/profile.h"

namespace holdfast {

class ProfileSubset {
 public:
  enum class Labels { kAll, kTexts };  // kTexts: no numeric labels, and names that servers accept

  explicit ProfileSubset(const Profile& now, Labels labels = Labels::kAll);

  // Omits labels with these names of that profile. Samples that become equal stay separate.
  void LeaveOut(absl::flat_hash_set<StringId> names) { left_out_ = std::move(names); }

  // Sets the duration from `before_nanos` to the time of the profile.
  void SetDuration(int64_t before_nanos);
  // `from`: that profile, or another profile of the same process. Adds nothing if all values are 0.
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

#endif  // HOLDFAST_REPORT_FLEET_LIVE_PROFILE_SUBSET_H_
