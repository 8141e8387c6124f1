#include "report/push/server_profile.h"

#include <span>

#include "absl/container/flat_hash_map.h"
#include "absl/hash/hash.h"
#include "report/base/time_budget.h"
#include "report/live/profile_subset.h"
#include "report/pprof/pprof.h"

namespace holdfast {
namespace {

// By its stack and the labels that stay.
size_t IdOf(const Profile& profile, const Profile::Sample& sample) {
  size_t hash = absl::HashOf(sample.frames);
  for (const uint32_t frame : profile.FramesOf(sample)) hash = absl::HashOf(hash, frame);
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    if (label.text != 0) hash = absl::HashOf(hash, label.key, label.text);
  }
  return hash;
}

struct Sums {
  std::vector<Profile::Sample> samples;
  std::vector<int64_t> values;  // for each sample one of each type
};

Sums SumsOf(const Profile& profile, const ServerLimits& limits, uint64_t* cut_stacks) {
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
    const auto [place, added] = known.emplace(IdOf(profile, sample), sums.samples.size());
    if (added) {
      sums.samples.push_back(sample);
      sums.values.resize(sums.values.size() + types);
    }
    for (size_t type = 0; type < types; ++type) sums.values[place->second * types + type] += profile.ValuesOf(i)[type];
  }
  return sums;
}

// The last four bytes of gzip are the size that it had.
size_t SizeOfContent(const std::string& gzip) {
  size_t size = 0;
  for (size_t i = 1; i <= 4 && i <= gzip.size(); ++i) {
    size = size << 8 | static_cast<unsigned char>(gzip[gzip.size() - i]);
  }
  return size;
}

class Splitter {
 public:
  Splitter(const Profile& profile, const ServerLimits& limits, ServerProfiles* made)
      : profile_(profile), limits_(limits), sums_(SumsOf(profile, limits, &made->cut_stacks)), made_(made) {}

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
    for (size_t i = begin; i < end; ++i) {
      subset.Add(profile_, sums_.samples[i], std::span(sums_.values).subspan(i * types, types));
    }
    Profile part = subset.Take();
    part.time_nanos += static_cast<int64_t>(made_->parts.size()) * kMs;
    if (part.samples.empty()) return true;
    std::string bytes = EncodePprof(part);
    if (SizeOfContent(bytes) > limits_.bytes) return false;
    made_->parts.push_back({std::move(bytes), part.time_nanos});
    return true;
  }

  const Profile& profile_;
  const ServerLimits& limits_;
  const Sums sums_;
  ServerProfiles* const made_;
};

}  // namespace

ServerProfiles ForServer(const Profile& profile, const ServerLimits& limits) {
  ServerProfiles made;
  Splitter(profile, limits, &made).Split();
  return made;
}

}  // namespace holdfast
