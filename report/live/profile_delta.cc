#include "report/live/profile_delta.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"

namespace holdfast {
namespace {

// FNV's step on whole words, with the high half folded in: small, and the same in every build.
void Mix(uint64_t value, uint64_t* hash) {
  *hash = (*hash ^ value) * 0x100000001b3ull;
  *hash ^= *hash >> 29;
}

void Mix(std::string_view text, uint64_t* hash) {
  for (const char c : text) Mix(static_cast<unsigned char>(c), hash);
  Mix(0x100, hash);  // no byte: "ab" "c" is not "a" "bc"
}

uint64_t Finished(uint64_t hash) {
  hash = (hash ^ hash >> 33) * 0xff51afd7ed558ccdull;
  return hash ^ hash >> 33;
}

bool IsCounter(std::string_view type) { return !type.starts_with("inuse_") && type != "alive"; }

// A wait that is not over: its time so far, which goes once it is.
bool IsInProgress(const Profile& profile, const Profile::Sample& sample) {
  const auto labels = profile.LabelsOf(sample);
  return std::any_of(labels.begin(), labels.end(), [&](const Profile::Label& label) {
    return profile.strings[label.key] == "state" && profile.strings[label.text] == "waiting";
  });
}

// Totals and losses count from the start of the process.
bool HoldsForDifferences(std::string_view comment) {
  constexpr std::string_view kKeys[] = {"kind",    "process", "program",         "executable",
                                        "command", "pid",     "forked from pid", "version",
                                        "started", "elapsed", "interval"};
  const std::string_view key = comment.substr(0, comment.find(':'));
  return std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys) || key.starts_with("interval since ") ||
         key.starts_with("no names") || key.starts_with("no lines");
}

// The profile that is made: all mappings of `now`, and of locations, functions and strings what its samples name.
class Difference {
 public:
  explicit Difference(const Profile& now) {
    made_.sample_types = Types(now);
    made_.default_sample_type = String(now, now.default_sample_type);
    made_.drop_frames = String(now, now.drop_frames);
    made_.keep_frames = String(now, now.keep_frames);
    made_.time_nanos = now.time_nanos;
    made_.period_type = {String(now, now.period_type.type), String(now, now.period_type.unit)};
    made_.period = now.period;
    for (const StringId comment : now.comments) {
      if (HoldsForDifferences(now.strings[comment])) made_.comments.push_back(String(now, comment));
    }
    for (const Profile::Mapping& mapping : now.mappings) AddMapping(now, mapping);
  }

  void SetDuration(int64_t before_nanos) {
    made_.duration_nanos = std::max<int64_t>(1, made_.time_nanos - before_nanos);
  }

  void Add(const Profile& from, const Profile::Sample& sample, const std::vector<int64_t>& values) {
    if (std::all_of(values.begin(), values.end(), [](int64_t value) { return value == 0; })) return;
    frames_.clear();
    for (const uint32_t frame : from.FramesOf(sample)) frames_.push_back(Location(from, from.locations[frame]));
    labels_.clear();
    for (const Profile::Label& label : from.LabelsOf(sample)) {
      labels_.push_back({String(from, label.key), String(from, label.text), label.number, String(from, label.unit)});
    }
    made_.AddSample(frames_, values, labels_);
  }

  Profile Take() { return std::move(made_); }

 private:
  StringId String(const Profile& from, StringId id) { return made_.strings.Intern(from.strings[id]); }

  std::vector<Profile::ValueType> Types(const Profile& from) {
    std::vector<Profile::ValueType> types;
    for (const auto& type : from.sample_types) types.push_back({String(from, type.type), String(from, type.unit)});
    return types;
  }

  uint32_t AddMapping(const Profile& from, const Profile::Mapping& mapping) {
    const auto [place, added] = mappings_.emplace(mapping.start, static_cast<uint32_t>(made_.mappings.size()));
    if (added) {
      made_.mappings.push_back(mapping);
      made_.mappings.back().file = String(from, mapping.file);
      made_.mappings.back().build_id = String(from, mapping.build_id);
    }
    return place->second;
  }

  uint32_t Location(const Profile& from, const Profile::Location& location) {
    const auto [place, added] = locations_.emplace(location.address, static_cast<uint32_t>(made_.locations.size()));
    if (!added) return place->second;
    Profile::Location made{
        .address = location.address, .is_folded = location.is_folded, .is_tail_call = location.is_tail_call};
    if (location.mapping != Profile::kNone) made.mapping = AddMapping(from, from.mappings[location.mapping]);
    std::vector<Profile::Line> lines;
    for (const Profile::Line& line : from.LinesOf(location)) {
      const Profile::Function& function = from.functions[line.function];
      lines.push_back({static_cast<uint32_t>(made_.functions.size()), line.line});
      made_.functions.push_back({String(from, function.name), String(from, function.system_name),
                                 String(from, function.filename), function.start_line});
    }
    made_.SetLines(&made, lines);
    made_.locations.push_back(made);
    return place->second;
  }

  Profile made_;
  absl::flat_hash_map<uint64_t, uint32_t> mappings_, locations_;  // by start, by address
  std::vector<uint32_t> frames_;
  std::vector<Profile::Label> labels_;
};

}  // namespace

uint64_t CumulativeValues::IdOf(const Profile& profile, const Profile::Sample& sample) {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (const uint32_t frame : profile.FramesOf(sample)) Mix(profile.locations[frame].address, &hash);
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    Mix(profile.strings[label.key], &hash);
    Mix(profile.strings[label.text], &hash);
    Mix(static_cast<uint64_t>(label.number), &hash);
  }
  return Finished(hash);
}

CumulativeValues::CumulativeValues(const Profile& profile) : time_nanos_(profile.time_nanos) {
  values_.reserve(profile.samples.size());
  const size_t types = std::min(kMostTypes, profile.sample_types.size());
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    Values& values = values_[IdOf(profile, profile.samples[i])];
    for (size_t type = 0; type < types; ++type) values[type] += profile.ValuesOf(i)[type];
  }
}

CumulativeValues::Values CumulativeValues::Of(uint64_t sample) const {
  const auto found = values_.find(sample);
  return found == values_.end() ? Values{} : found->second;
}

Profile ChangeBetween(const Profile& before, const Profile& now) {
  const CumulativeValues old(before);
  Difference difference(now);
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
  Difference difference(now);
  if (before.time_nanos() != 0) difference.SetDuration(before.time_nanos());
  std::vector<int64_t> values(now.sample_types.size());
  for (size_t i = 0; i < now.samples.size(); ++i) {
    if (IsInProgress(now, now.samples[i])) continue;
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

}  // namespace holdfast
