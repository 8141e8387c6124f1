#include "report/fleet/push/server_profile.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "report/base/time_budget.h"
#include "report/fleet/live/profile_subset.h"
#include "report/profile/pprof.h"

namespace holdfast {
namespace {

using LabelNames = absl::flat_hash_set<StringId>;

// Whether label `a` comes before `b`. Our labels come first, because they say what was waited for.
bool ComesBefore(std::string_view a, std::string_view b) {
  constexpr std::string_view kFirst[] = {"wait", "lock", "state", "thread", "lock_address"};
  const auto place = [&](std::string_view name) { return std::find(std::begin(kFirst), std::end(kFirst), name); };
  return std::pair(place(a), a) < std::pair(place(b), b);
}

// Returns the labels to remove so that no sample exceeds the limit, and how many samples have one of them.
LabelNames TooMany(const Profile& profile, size_t most, uint64_t* samples) {
  LabelNames left_out;
  std::vector<StringId> names;
  const auto read = [&](const Profile::Sample& sample) {
    names.clear();
    for (const Profile::Label& label : profile.LabelsOf(sample)) {
      if (label.text != 0 && !left_out.contains(label.key)) names.push_back(label.key);
    }
  };
  for (const Profile::Sample& sample : profile.samples) {
    read(sample);
    if (names.size() <= most) continue;
    std::sort(names.begin(), names.end(),
              [&](StringId a, StringId b) { return ComesBefore(profile.strings[a], profile.strings[b]); });
    left_out.insert(names.begin() + static_cast<ptrdiff_t>(most), names.end());
  }
  if (left_out.empty()) return left_out;
  for (const Profile::Sample& sample : profile.samples) {
    const auto labels = profile.LabelsOf(sample);
    *samples += std::any_of(labels.begin(), labels.end(),
                            [&](const Profile::Label& label) { return left_out.contains(label.key); });
  }
  return left_out;
}

// Identifies a sample by its stack and the remaining labels.
size_t IdOf(const Profile& profile, const Profile::Sample& sample, const LabelNames& left_out) {
  size_t hash = absl::HashOf(sample.frames);
  for (const uint32_t frame : profile.FramesOf(sample)) hash = absl::HashOf(hash, frame);
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    if (label.text != 0 && !left_out.contains(label.key)) hash = absl::HashOf(hash, label.key, label.text);
  }
  return hash;
}

struct Sums {
  std::vector<Profile::Sample> samples;
  std::vector<int64_t> values;  // per sample: one of each type
};

Sums SumsOf(const Profile& profile, const ServerLimits& limits, const LabelNames& left_out, uint64_t* cut_stacks) {
  Sums sums;
  absl::flat_hash_map<size_t, size_t> known;
  const size_t types = profile.sample_types.size();
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    Profile::Sample sample = profile.samples[i];
    if (sample.frames > limits.depth) {
      sample.first_frame += sample.frames - limits.depth;  // leaf first
      sample.frames = static_cast<uint32_t>(limits.depth);
      ++*cut_stacks;
    }
    const auto [place, added] = known.emplace(IdOf(profile, sample, left_out), sums.samples.size());
    if (added) {
      sums.samples.push_back(sample);
      sums.values.resize(sums.values.size() + types);
    }
    for (size_t type = 0; type < types; ++type) sums.values[place->second * types + type] += profile.ValuesOf(i)[type];
  }
  return sums;
}

class Splitter {
 public:
  Splitter(const Profile& profile, const ServerLimits& limits, ServerProfiles* made)
      : profile_(profile),
        limits_(limits),
        left_out_(TooMany(profile, limits.sample_labels, &made->cut_labels)),
        sums_(SumsOf(profile, limits, left_out_, &made->cut_stacks)),
        made_(made) {
    for (const StringId name : left_out_) made->left_out.emplace_back(profile.strings[name]);
    std::sort(made->left_out.begin(), made->left_out.end());
  }

  void Split() {
    if (!sums_.samples.empty()) Add(0, sums_.samples.size());
  }

 private:
  void Add(size_t begin, size_t end) {
    if (end - begin <= limits_.samples && Encode(begin, end)) return;
    if (end - begin == 1) {
      ++made_->too_large;
      return;
    }
    const size_t middle = begin + (end - begin) / 2;
    Add(begin, middle);
    Add(middle, end);
  }

  bool Encode(size_t begin, size_t end) {
    const size_t types = profile_.sample_types.size();
    ProfileSubset subset(profile_, ProfileSubset::Labels::kTexts);
    subset.LeaveOut(left_out_);
    for (size_t i = begin; i < end; ++i) {
      subset.Add(profile_, sums_.samples[i], std::span(sums_.values).subspan(i * types, types));
    }
    Profile part = subset.Take();
    part.time_nanos += static_cast<int64_t>(made_->parts.size()) * kMs;
    if (part.samples.empty()) return true;
    std::string bytes = EncodePprof(part);
    if (UnpackedBytes(bytes) > limits_.bytes) return false;
    made_->parts.push_back({std::move(bytes), part.time_nanos});
    return true;
  }

  const Profile& profile_;
  const ServerLimits& limits_;
  const LabelNames left_out_;
  const Sums sums_;
  ServerProfiles* const made_;
};

}  // namespace

// The last four bytes of gzip hold the uncompressed size.
size_t UnpackedBytes(std::string_view gzip) {
  size_t size = 0;
  for (size_t i = 1; i <= 4 && i <= gzip.size(); ++i) {
    size = size << 8 | static_cast<unsigned char>(gzip[gzip.size() - i]);
  }
  return size;
}

ServerProfiles ForServer(const Profile& profile, const ServerLimits& limits) {
  ServerProfiles made;
  Splitter(profile, limits, &made).Split();
  return made;
}

}  // namespace holdfast
