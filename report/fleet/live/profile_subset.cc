#include "report/fleet/live/profile_subset.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "report/profile/process_comments.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

// Pyroscope and Prometheus accept letters, digits and underscores, and no digit first. The program's own labels may
// have any name.
std::string ServerLabelName(std::string_view key) {
  std::string name(key);
  for (char& c : name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    if (!letter && (c < '0' || c > '9')) c = '_';
  }
  return name.empty() || (name[0] >= '0' && name[0] <= '9') ? "_" + name : name;
}

}  // namespace

ProfileSubset::ProfileSubset(const Profile& now, Labels labels) : which_labels_(labels) {
  for (const auto& type : now.sample_types) {
    made_.sample_types.push_back({String(now, type.type), String(now, type.unit)});
  }
  made_.default_sample_type = String(now, now.default_sample_type);
  made_.drop_frames = String(now, now.drop_frames);
  made_.keep_frames = String(now, now.keep_frames);
  made_.time_nanos = now.time_nanos;
  made_.duration_nanos = now.duration_nanos;
  made_.period_type = {String(now, now.period_type.type), String(now, now.period_type.unit)};
  made_.period = now.period;
  // Totals and losses count from the start of the process, so they do not apply to a part.
  record::Profile* records = made_.mutable_records();
  records->process = now.records().process;
  records->sampling = now.records().sampling;
  records->missing_names = now.records().missing_names;
  AddProcessComments(&made_);
  for (const Profile::Mapping& mapping : now.mappings) AddMapping(now, mapping);
}

void ProfileSubset::SetDuration(int64_t before_nanos) {
  made_.duration_nanos = std::max<int64_t>(1, made_.time_nanos - before_nanos);
}

void ProfileSubset::Add(const Profile& from, const Profile::Sample& sample, std::span<const int64_t> values) {
  if (std::all_of(values.begin(), values.end(), [](int64_t value) { return value == 0; })) return;
  frames_.clear();
  for (const uint32_t frame : from.FramesOf(sample)) frames_.push_back(Location(from, from.locations[frame]));
  labels_.clear();
  for (const Profile::Label& label : from.LabelsOf(sample)) {
    if ((which_labels_ == Labels::kTexts && label.text == 0) || left_out_.contains(label.key)) continue;
    const StringId key = which_labels_ == Labels::kTexts
                             ? made_.strings.Intern(ServerLabelName(from.strings[label.key]))
                             : String(from, label.key);
    labels_.push_back({key, String(from, label.text), label.number, String(from, label.unit)});
  }
  made_.AddSample(frames_, values, labels_);
}

uint32_t ProfileSubset::AddMapping(const Profile& from, const Profile::Mapping& mapping) {
  const auto [place, added] = mappings_.emplace(mapping.start, static_cast<uint32_t>(made_.mappings.size()));
  if (added) {
    made_.mappings.push_back(mapping);
    made_.mappings.back().file = String(from, mapping.file);
    made_.mappings.back().build_id = String(from, mapping.build_id);
  }
  return place->second;
}

uint32_t ProfileSubset::FunctionOf(const Profile& from, const Profile::Function& function) {
  const Profile::Function made = {String(from, function.name), String(from, function.system_name),
                                  String(from, function.filename), function.start_line};
  const auto [place, added] =
      functions_.emplace(std::tuple(made.name, made.system_name, made.filename, made.start_line),
                         static_cast<uint32_t>(made_.functions.size()));
  if (added) made_.functions.push_back(made);
  return place->second;
}

uint32_t ProfileSubset::Location(const Profile& from, const Profile::Location& location) {
  const auto [place, added] = locations_.emplace(location.address, static_cast<uint32_t>(made_.locations.size()));
  if (!added) return place->second;
  Profile::Location made{
      .address = location.address, .is_folded = location.is_folded, .is_tail_call = location.is_tail_call};
  if (location.mapping != Profile::kNone) made.mapping = AddMapping(from, from.mappings[location.mapping]);
  std::vector<Profile::Line> lines;
  for (const Profile::Line& line : from.LinesOf(location)) {
    lines.push_back({FunctionOf(from, from.functions[line.function]), line.line});
  }
  made_.SetLines(&made, lines);
  made_.locations.push_back(made);
  return static_cast<uint32_t>(made_.locations.size() - 1);
}

}  // namespace holdfast
