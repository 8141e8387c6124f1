#include "report/analysis/variance.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "report/analysis/profiles/metric.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/records.h"

namespace holdfast {
namespace {

// The sample type with counts, and the one with amounts of the same events: (alloc_objects, alloc_space), (contentions,
// delay) …
struct Pair {
  size_t count, amount;
};

std::vector<Pair> PairsOf(const Profile& profile) {
  std::vector<Pair> pairs;
  const auto& types = profile.sample_types;
  for (size_t i = 0; i + 1 < types.size(); ++i) {
    const std::string_view count = profile.strings[types[i].type], amount = profile.strings[types[i + 1].type];
    const bool heap = count.ends_with("_objects") && amount.ends_with("_space") &&
                      count.substr(0, count.find('_')) == amount.substr(0, amount.find('_'));
    if (heap || (count == "contentions" && amount == "delay")) pairs.push_back({i, i + 1});
  }
  return pairs;
}

// Returns the mean interval in the unit of the amounts; nothing if the file does not say. If the interval was changed,
// returns the largest one, which causes most of the error.
std::optional<double> IntervalOf(const Profile& profile) {
  int64_t largest = 0;
  for (const Interval& interval : IntervalsOf(profile)) {
    if (interval.unit == "bytes" || interval.unit == "ns") largest = std::max(largest, interval.mean);
  }
  return largest >= 1 ? std::optional<double>(static_cast<double>(largest)) : std::nullopt;
}

// For a lifetimes profile at interval 1: small blocks have their age recorded with probability 1/one_in, larger blocks
// always.
struct Drawn {
  double one_in, up_to;
};
std::optional<Drawn> DrawnOf(const Profile& profile) {
  if (!AgesAreDrawn(profile)) return std::nullopt;
  const record::Sampling& sampling = *profile.records().sampling;
  const Drawn drawn{static_cast<double>(sampling.aged_one_in), static_cast<double>(sampling.aged_up_to_bytes)};
  return drawn.one_in < 1e6 ? std::optional(drawn) : std::nullopt;
}

double ChanceOf(double size, double interval, const std::optional<Drawn>& drawn) {
  const double sampled = interval <= 1 ? 1 : -std::expm1(-std::max(1.0, size) / interval);
  return drawn && size <= drawn->up_to ? sampled / drawn->one_in : sampled;
}

// The positions of the two additional sample types in such a profile; 0: it is another profile.
struct Alive {
  size_t lifetime = 0, space = 0;
};
Alive AliveOf(const Profile& profile) {
  const auto& types = profile.sample_types;
  const bool has = types.size() == 4 && profile.strings[types[0].type] == "freed_objects" &&
                   profile.strings[types[3].type] == "alive_space";
  return has ? Alive{2, 3} : Alive{};
}

// Returns whether this is a profile of resident memory: inuse_objects, inuse_space, and from the third type on parts of
// inuse_space.
constexpr size_t kFirstPart = 2;
bool IsOfResident(const Profile& profile) {
  const auto& types = profile.sample_types;
  return types.size() > kFirstPart && profile.strings[types[kFirstPart].type] == "resident_space";
}

// Returns the label `mapping` of a sample, which says what the sample is; "": blocks.
std::string_view MappingOf(const Profile& profile, const Profile::Sample& sample) {
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    if (profile.strings[label.key] == "mapping") return profile.strings[label.text];
  }
  return "";
}

// Returns the variance of a total as the file states it; nothing if it does not.
std::optional<double> StatedVariance(const Profile& profile, size_t type) {
  const auto half_width = HalfWidth(profile, type);
  if (!half_width) return std::nullopt;
  const double variance = (*half_width / 1.96) * (*half_width / 1.96);
  return std::isfinite(variance) ? std::optional(variance) : std::nullopt;
}

// For exceptions a sample represents all throws since the previous one, but the file does not have that number for each
// sample. So the stated variance of the total is distributed by the samples' counts.
std::vector<double> SharedOut(const Profile& profile) {
  const auto stated = StatedVariance(profile, 0);
  if (!stated) return {};
  std::vector<double> variances;
  double total = 0;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    variances.push_back(std::max(0.0, static_cast<double>(profile.ValuesOf(i)[0])));
    total += variances.back();
  }
  for (double& variance : variances) variance *= total > 0 ? *stated / total : 0;
  return variances;
}

// For a lifetimes profile at interval 1 the totals of a stack are exact counts. The parts by age are extrapolated from
// the blocks with recorded ages; each of them represents at most `one_in` blocks.
std::vector<double> VariancesByAge(const Profile& profile, double interval, const Drawn& drawn, const Alive& alive) {
  const size_t width = profile.sample_types.size();
  std::vector<double> variances(profile.samples.size() * width);
  const auto of_objects = [&](double objects, double size) {
    const double sampled = ChanceOf(size, interval, std::nullopt);
    const double by_chance = objects * (1 - sampled) / sampled;
    return size <= drawn.up_to ? std::max(by_chance, objects * (std::min(objects, drawn.one_in) - 1)) : by_chance;
  };
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    const auto labels = profile.LabelsOf(profile.samples[i]);
    const auto has = [&](std::string_view key) {
      return std::ranges::find_if(labels,
                                  [&](const Profile::Label& label) { return profile.strings[label.key] == key; });
    };
    if (has("age") == labels.end()) continue;
    const auto values = profile.ValuesOf(i);
    const auto objects = static_cast<double>(values[0]), lifetime = static_cast<double>(values[alive.lifetime]);
    if (objects > 0) {
      const double mean = std::max(0.0, static_cast<double>(values[1])) / objects, variance = of_objects(objects, mean);
      variances[i * width] = variance;
      variances[i * width + 1] = variance * mean * mean;
      variances[i * width + alive.lifetime] = variance * (lifetime / objects) * (lifetime / objects);
    }
    const auto size_label = has("bytes");
    const double size = size_label != labels.end() ? static_cast<double>(size_label->number) : 0;
    if (size > 0 && values[alive.space] > 0)
      variances[i * width + alive.space] =
          of_objects(std::max(1.0, static_cast<double>(values[alive.space]) / size), size) * size * size;
  }
  return variances;
}

}  // namespace

std::vector<double> VariancesOf(const Profile& profile, bool by_age) {
  const auto& types = profile.sample_types;
  if (types.size() == 1 && profile.strings[types[0].type] == "exceptions") return SharedOut(profile);
  // Threads are counted exactly.
  if (types.size() == 2 && profile.strings[types[0].type] == "created")
    return std::vector<double>(profile.samples.size() * types.size());
  // A CPU sample counts for one interval.
  if (types.size() == 2 && profile.strings[types[1].type] == "cpu") {
    std::vector<double> variances;
    for (size_t i = 0; i < profile.samples.size(); ++i) {
      const auto values = profile.ValuesOf(i);
      const double samples = std::max(0.0, static_cast<double>(values[0]));
      const double time = std::max(0.0, static_cast<double>(values[1]));
      variances.insert(variances.end(), {samples, samples > 0 ? time * time / samples : 0});
    }
    return variances;
  }
  const auto interval = IntervalOf(profile);
  const auto pairs = PairsOf(profile);
  if (!interval || pairs.empty()) return {};
  const size_t width = types.size();
  std::vector<double> variances(profile.samples.size() * width);
  const std::optional<Drawn> drawn = DrawnOf(profile);
  if (*interval <= 1 && !drawn) return variances;
  const Alive alive = AliveOf(profile);
  if (by_age && drawn && alive.space != 0) return VariancesByAge(profile, *interval, *drawn, alive);
  const bool resident = IsOfResident(profile);
  std::vector<size_t> of_allocators;
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    const auto values = profile.ValuesOf(i);
    if (const std::string_view mapping = resident ? MappingOf(profile, profile.samples[i]) : ""; !mapping.empty()) {
      if (mapping == kMappingKindNames[static_cast<size_t>(MappingKind::kArena)]) of_allocators.push_back(i);
      continue;
    }
    for (const Pair& pair : pairs) {
      const auto count = static_cast<double>(values[pair.count]), amount = static_cast<double>(values[pair.amount]);
      if (!(count > 0) || amount < 0) continue;
      const double mean = amount / count;
      const double p = ChanceOf(mean, *interval, drawn);
      variances[i * width + pair.count] = count * (1 - p) / p;
      variances[i * width + pair.amount] = amount * mean * (1 - p) / p;
      for (size_t part = resident ? kFirstPart : width; part < width; ++part) {
        // Assume that each block is either wholly resident or not at all, which gives the largest variance.
        const auto bytes = std::clamp(static_cast<double>(values[part]), 0.0, amount);
        variances[i * width + part] = bytes * mean * (1 - p) / p;
      }
      if (alive.space == 0) continue;
      const auto age = static_cast<double>(values[alive.lifetime]);
      variances[i * width + alive.lifetime] = age * age / count * (1 - p) / p;
    }
    if (alive.space == 0 || values[alive.space] <= 0) continue;
    for (const Profile::Label& label : profile.LabelsOf(profile.samples[i])) {
      if (profile.strings[label.key] != "bytes") continue;
      const auto size = static_cast<double>(label.number);
      const double p = ChanceOf(size, *interval, drawn);
      variances[i * width + alive.space] = static_cast<double>(values[alive.space]) * size * (1 - p) / p;
    }
  }
  for (size_t type = 0; type < width; ++type) {
    const auto stated = StatedVariance(profile, type);
    if (!stated) continue;
    double sum = 0;
    for (size_t i = type; i < variances.size(); i += width) sum += variances[i];
    if (!(sum > 0)) continue;
    for (size_t i = type; i < variances.size(); i += width) variances[i] *= *stated / sum;
    const auto value = [&](size_t i) { return std::max(0.0, static_cast<double>(profile.ValuesOf(i)[type])); };
    double all = 0;
    for (const size_t i : of_allocators) all += value(i);
    for (const size_t i : of_allocators) {
      if (all > 0 && type > 0) variances[i * width + type] = *stated * value(i) / all;
    }
  }
  return variances;
}

}  // namespace holdfast
