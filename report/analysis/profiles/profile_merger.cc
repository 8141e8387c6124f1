#include "report/analysis/profiles/profile_merger.h"

#include <algorithm>
#include <cmath>

#include "absl/hash/hash.h"
#include "absl/types/span.h"
#include "fmt/format.h"
#include "report/analysis/profiles/filtered_stacks.h"

namespace holdfast {
namespace {

constexpr uint64_t kShift = uint64_t{1} << 48;

bool SameLines(std::span<const Profile::Line> a, std::span<const Profile::Line> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Profile::Line& x, const Profile::Line& y) {
    return x.function == y.function && x.line == y.line;
  });
}

uint64_t HashOfSample(std::span<const uint32_t> frames, std::span<const Profile::Label> labels) {
  size_t hash = absl::HashOf(absl::MakeConstSpan(frames.data(), frames.size()));
  for (const Profile::Label& label : labels) hash = absl::HashOf(hash, label.key, label.text, label.number, label.unit);
  return hash;
}

}  // namespace

// Profile::kNone: not translated yet.
struct ProfileMerger::Ids {
  explicit Ids(const Profile& from)
      : strings(from.strings.size(), Profile::kNone),
        mappings(from.mappings.size(), Profile::kNone),
        functions(from.functions.size(), Profile::kNone),
        locations(from.locations.size(), Profile::kNone) {}
  StringId String(const Profile& from, StringId id, StringTable* to) {
    if (strings[id] == Profile::kNone) strings[id] = to->Intern(from.strings[id]);
    return strings[id];
  }
  std::vector<uint32_t> strings, mappings, functions, locations;
};

ProfileMerger::ProfileMerger(size_t sets) : sets_(sets), profile_(std::make_shared<Profile>()) {}

absl::Status ProfileMerger::Add(const Profile& from, std::span<const double> variances, size_t set,
                                std::span<const size_t> columns) {
  return AddScaled(from, variances, set, columns, 1);
}

absl::Status ProfileMerger::Subtract(const Profile& from, std::span<const double> variances,
                                     std::span<const size_t> columns) {
  return AddScaled(from, variances, 0, columns, -1);
}

uint32_t ProfileMerger::MappingOf(const Profile& from, uint32_t mapping, Ids* ids) {
  if (mapping == Profile::kNone) return mapping;
  uint32_t& id = ids->mappings[mapping];
  if (id != Profile::kNone) return id;
  Profile::Mapping made = from.mappings[mapping];
  made.file = ids->String(from, made.file, &profile_->strings);
  made.build_id = ids->String(from, made.build_id, &profile_->strings);
  made.has_bias = false;
  const StringId key = made.build_id != 0 ? made.build_id : made.file;
  const auto [place, added] = mappings_.emplace(std::tuple(key, made.offset, made.limit - made.start),
                                                static_cast<uint32_t>(profile_->mappings.size()));
  if (added) {
    const auto overlaps = [&](const Profile::Mapping& other) {
      return made.start < other.limit && other.start < made.limit;
    };
    for (int tries = 0; tries < 0xffff && std::any_of(profile_->mappings.begin(), profile_->mappings.end(), overlaps);
         ++tries) {
      made.start += kShift;
      made.limit += kShift;
    }
    profile_->mappings.push_back(made);
  } else {
    auto& known = profile_->mappings[place->second];
    known.has_functions &= made.has_functions;
    known.has_filenames &= made.has_filenames;
    known.has_line_numbers &= made.has_line_numbers;
    known.has_inline_frames &= made.has_inline_frames;
  }
  return id = place->second;
}

uint32_t ProfileMerger::FunctionOf(const Profile& from, uint32_t function, Ids* ids) {
  uint32_t& id = ids->functions[function];
  if (id != Profile::kNone) return id;
  Profile::Function made = from.functions[function];
  for (StringId* text : {&made.name, &made.system_name, &made.filename}) {
    *text = ids->String(from, *text, &profile_->strings);
  }
  const auto [place, added] =
      functions_.emplace(std::tuple(made.name, made.system_name, made.filename, made.start_line),
                         static_cast<uint32_t>(profile_->functions.size()));
  if (added) profile_->functions.push_back(made);
  return id = place->second;
}

uint32_t ProfileMerger::LocationOf(const Profile& from, uint32_t location, Ids* ids) {
  uint32_t& id = ids->locations[location];
  if (id != Profile::kNone) return id;
  const Profile::Location& old = from.locations[location];
  Profile::Location made{.address = old.address, .is_folded = old.is_folded, .is_tail_call = old.is_tail_call};
  made.mapping = MappingOf(from, old.mapping, ids);
  if (made.mapping != Profile::kNone) {
    made.address = old.address - from.mappings[old.mapping].start + profile_->mappings[made.mapping].start;
  }
  std::vector<Profile::Line> lines;
  for (const Profile::Line& line : from.LinesOf(old))
    lines.push_back({FunctionOf(from, line.function, ids), line.line});
  // Code of one build always has the same lines, no matter how much of it was symbolized.
  const bool known_build = made.mapping != Profile::kNone && profile_->mappings[made.mapping].build_id != 0;
  auto& same = locations_[absl::HashOf(made.mapping, made.address)];
  for (const uint32_t candidate : same) {
    Profile::Location& other = profile_->locations[candidate];
    if (other.mapping != made.mapping || other.address != made.address) continue;
    if (!known_build && !SameLines(profile_->LinesOf(other), lines)) continue;
    if (other.lines == 0 && !lines.empty()) profile_->SetLines(&other, lines);
    return id = candidate;
  }
  profile_->SetLines(&made, lines);
  same.push_back(static_cast<uint32_t>(profile_->locations.size()));
  profile_->locations.push_back(made);
  return id = same.back();
}

size_t ProfileMerger::SampleOf(std::span<const uint32_t> frames, std::span<const Profile::Label> labels) {
  const auto next = static_cast<uint32_t>(profile_->samples.size());
  const auto [place, added] = samples_.emplace(HashOfSample(frames, labels), next);
  if (!added) {
    for (uint32_t i = place->second; i != Profile::kNone; i = older_[i]) {
      const auto& sample = profile_->samples[i];
      const auto its_frames = profile_->FramesOf(sample);
      const auto its_labels = profile_->LabelsOf(sample);
      if (std::equal(its_frames.begin(), its_frames.end(), frames.begin(), frames.end()) &&
          std::equal(its_labels.begin(), its_labels.end(), labels.begin(), labels.end())) {
        return i;
      }
    }
  }
  older_.push_back(added ? Profile::kNone : place->second);
  place->second = next;
  const std::vector<int64_t> zeros(profile_->sample_types.size());
  profile_->AddSample(frames, zeros, labels);
  variances_.resize(variances_.size() + zeros.size());
  return next;
}

absl::Status ProfileMerger::AddScaled(const Profile& from, std::span<const double> variances, size_t set,
                                      std::span<const size_t> columns, int sign) {
  Ids ids(from);
  const auto type_of = [&](size_t i) {
    return Profile::ValueType{ids.String(from, from.sample_types[i].type, &profile_->strings),
                              ids.String(from, from.sample_types[i].unit, &profile_->strings)};
  };
  if (profile_->sample_types.empty()) {
    types_ = from.sample_types.size();
    for (size_t copy = 0; copy < sets_; ++copy) {
      for (size_t i = 0; i < types_; ++i) profile_->sample_types.push_back(type_of(i));
    }
    profile_->default_sample_type = ids.String(from, from.default_sample_type, &profile_->strings);
    profile_->period = from.period;
    profile_->period_type = {ids.String(from, from.period_type.type, &profile_->strings),
                             ids.String(from, from.period_type.unit, &profile_->strings)};
    profile_->drop_frames = ids.String(from, from.drop_frames, &profile_->strings);
    profile_->keep_frames = ids.String(from, from.keep_frames, &profile_->strings);
  }
  bool same = from.sample_types.size() == types_;
  for (size_t i = 0; same && i < types_; ++i) {
    const Profile::ValueType type = type_of(i);
    same = type.type == profile_->sample_types[i].type && type.unit == profile_->sample_types[i].unit;
  }
  if (!same) return absl::InvalidArgumentError("its metrics differ from those of the first file");
  profile_->time_nanos = std::max(profile_->time_nanos, from.time_nanos);
  profile_->period = std::max(profile_->period, from.period);  // as pprof does
  if (variances.empty() && !from.samples.empty()) variances_known_ = false;
  // The main program comes first, as pprof's readers expect.
  for (uint32_t i = 0; i < from.mappings.size(); ++i) MappingOf(from, i, &ids);

  std::vector<uint32_t> frames;
  std::vector<Profile::Label> labels;
  for (size_t i = 0; i < from.samples.size(); ++i) {
    frames.clear();
    labels.clear();
    for (const uint32_t frame : from.FramesOf(from.samples[i])) frames.push_back(LocationOf(from, frame, &ids));
    for (Profile::Label label : from.LabelsOf(from.samples[i])) {
      for (StringId* text : {&label.key, &label.text, &label.unit}) {
        *text = ids.String(from, *text, &profile_->strings);
      }
      labels.push_back(label);
    }
    const size_t sample = SampleOf(frames, labels);
    const auto values = from.ValuesOf(i);
    const auto sums = profile_->ValuesOf(sample);
    for (size_t c = 0; c < types_; ++c) {
      if (!columns.empty() && std::find(columns.begin(), columns.end(), c) == columns.end()) continue;
      int64_t& sum = sums[set * types_ + c];
      sum = sign > 0 ? WrappedSum(sum, values[c]) : std::max<int64_t>(0, WrappedDifference(sum, values[c]));
      if (variances.empty()) continue;
      double& variance = variances_[sample * profile_->sample_types.size() + set * types_ + c];
      variance = std::max(0.0, variance + sign * variances[i * types_ + c]);
    }
  }
  return absl::OkStatus();
}

std::vector<std::vector<uint32_t>> ProfileMerger::StacksIn(const Profile& from,
                                                           const std::vector<std::vector<uint32_t>>& stacks) {
  Ids ids(from);
  std::vector<std::vector<uint32_t>> made = stacks;
  for (std::vector<uint32_t>& stack : made) {
    for (uint32_t& location : stack) location = LocationOf(from, location, &ids);
  }
  return made;
}

void ProfileMerger::Scale(double factor) {
  // What rounding takes from a sample goes to the next ones, so that many small samples keep their sum.
  std::vector<double> rest(profile_->sample_types.size());
  for (size_t i = 0; i < profile_->samples.size(); ++i) {
    const auto values = profile_->ValuesOf(i);
    for (size_t c = 0; c < values.size(); ++c) {
      const double exact = static_cast<double>(values[c]) * factor, wanted = exact + rest[c];
      values[c] = static_cast<int64_t>(std::clamp(std::round(wanted), -9.2e18, 9.2e18));
      // Beyond 2^53 the rest is noise.
      rest[c] = std::abs(wanted) < 9e15 ? wanted - static_cast<double>(values[c]) : 0;
    }
  }
  for (double& variance : variances_) variance *= factor * factor;
}

Merged ProfileMerger::Take() {
  if (!variances_known_) variances_.clear();
  return {std::move(profile_), std::move(variances_)};
}

}  // namespace holdfast
