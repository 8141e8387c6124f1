#include "report/fleet/live/profile_delta.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "report/fleet/live/profile_subset.h"
#include "report/profile/profile_kind.h"

namespace holdfast {
namespace {

// FNV's step on whole words, with the high half folded in: small, and the same in every build.
void Mix(uint64_t value, uint64_t* hash) {
  *hash = (*hash ^ value) * 0x100000001b3ull;
  *hash ^= *hash >> 29;
}

void Mix(std::string_view text, uint64_t* hash) {
  for (const char c : text) Mix(static_cast<unsigned char>(c), hash);
  Mix(0x100, hash);  // a value that is no byte: separates "ab" "c" from "a" "bc"
}

uint64_t Mixed(uint64_t hash) {
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
  return hash ^ hash >> 33;
}

}  // namespace

uint64_t CumulativeValues::IdOf(const Profile& profile, const Profile::Sample& sample) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const uint32_t frame : profile.FramesOf(sample)) Mix(profile.locations[frame].address, &hash);
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    Mix(profile.strings[label.key], &hash);
    Mix(profile.strings[label.text], &hash);
    Mix(static_cast<uint64_t>(label.number), &hash);
  }
  return Mixed(hash);
}

CumulativeValues::CumulativeValues(const Profile& profile) : time_nanos_(profile.time_nanos) {
  values_.reserve(profile.samples.size());
  const size_t types = std::min(kMaxTypes, profile.sample_types.size());
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    Values& values = values_[IdOf(profile, profile.samples[i])];
    for (size_t type = 0; type < types; ++type) values[type] += profile.ValuesOf(i)[type];
  }
}

CumulativeValues::Values CumulativeValues::Of(uint64_t sample) const {
  const auto found = values_.find(sample);
  return found == values_.end() ? Values{} : found->second;
}

void CumulativeValues::RaiseTo(const CumulativeValues& other) {
  time_nanos_ = std::max(time_nanos_, other.time_nanos_);
  for (const auto& [sample, values] : other.values_) {
    Values& ours = values_[sample];
    for (size_t type = 0; type < ours.size(); ++type) ours[type] = std::max(ours[type], values[type]);
  }
}

Profile ChangeBetween(const Profile& before, const Profile& now) {
  const CumulativeValues old(before);
  ProfileSubset difference(now);
  difference.SetDuration(before.time_nanos);
  absl::flat_hash_set<uint64_t> still;
  std::vector<int64_t> values(now.sample_types.size());
  for (size_t i = 0; i < now.samples.size(); ++i) {
    const uint64_t id = CumulativeValues::IdOf(now, now.samples[i]);
    still.insert(id);
    const CumulativeValues::Values earlier = old.Of(id);
    for (size_t type = 0; type < values.size(); ++type) values[type] = now.ValuesOf(i)[type] - earlier[type];
    difference.Add(now, now.samples[i], values);
  }
  for (size_t i = 0; i < before.samples.size(); ++i) {
    if (still.contains(CumulativeValues::IdOf(before, before.samples[i]))) continue;
    for (size_t type = 0; type < values.size(); ++type) values[type] = -before.ValuesOf(i)[type];
    difference.Add(before, before.samples[i], values);
  }
  return difference.Take();
}

Profile IncreaseSince(const CumulativeValues& before, const Profile& now) {
  ProfileSubset difference(now);
  if (before.time_nanos() != 0) difference.SetDuration(before.time_nanos());
  std::vector<int64_t> values(now.sample_types.size());
  for (size_t i = 0; i < now.samples.size(); ++i) {
    if (now.IsWaiting(now.samples[i])) continue;
    const CumulativeValues::Values earlier = before.Of(CumulativeValues::IdOf(now, now.samples[i]));
    for (size_t type = 0; type < values.size(); ++type) {
      const int64_t value = now.ValuesOf(i)[type];
      const bool counter = IsCounter(now.strings[now.sample_types[type].type]);
      values[type] = counter ? std::max<int64_t>(0, value - earlier[type]) : value;
    }
    difference.Add(now, now.samples[i], values);
  }
  return difference.Take();
}

bool CountsSomething(const Profile& increase) {
  for (size_t type = 0; type < increase.sample_types.size(); ++type) {
    if (IsCounter(increase.strings[increase.sample_types[type].type]) && increase.Total(type) != 0) return true;
  }
  return false;
}

}  // namespace holdfast
