#include "report/html/report_builder.h"

#include <cmath>
#include <set>

#include "fmt/format.h"
#include "report/base/base_name.h"
#include "report/base/json_text.h"
#include "report/analysis/lock_list.h"
#include "report/base/utf8.h"
#include "report/profiles/metric.h"

namespace holdfast {

HtmlData::HtmlData() {
  parents_.push_back(kRoot);
  node_frames_.push_back(kNoFrame);
}

uint32_t HtmlData::FunctionOf(std::string_view name, std::string_view file, int64_t start_line) {
  const auto [place, added] = function_of_.emplace(RepairUtf8(name), functions_.size());
  if (added) functions_.push_back({.name = place->first, .file = ""});
  Function& function = functions_[place->second];
  if (function.file.empty() && !file.empty()) {
    function.file = RepairUtf8(file);
    function.start_line = start_line;
  }
  return place->second;
}

uint32_t HtmlData::FrameOf(const Frame& frame) {
  const auto [place, added] = frame_of_.emplace(frame.Key(), frames_.size());
  if (added) frames_.push_back(frame);
  return place->second;
}

uint32_t HtmlData::ObjectOf(std::string_view path, std::string_view build_id) {
  if (path.empty()) return 0;
  const auto [place, added] =
      object_of_.emplace(std::pair(std::string(path), std::string(build_id)), objects_.size() + 1);
  if (added) objects_.push_back(place->first);
  return place->second;
}

uint32_t HtmlData::NodeOf(uint32_t parent, uint32_t frame) {
  const auto [place, added] = node_of_.emplace(uint64_t{parent} << 32 | frame, parents_.size());
  if (added) {
    parents_.push_back(parent);
    node_frames_.push_back(frame);
  }
  return place->second;
}

uint32_t HtmlData::LabelSetOf(const Profile& profile, const Profile::Sample& sample) {
  JsonText json;
  json.Open('[');
  for (const Profile::Label& label : profile.LabelsOf(sample)) {
    json.Open('[').String(profile.strings[label.key]);
    if (label.text != 0) {
      json.String(profile.strings[label.text]);
    } else {
      json.Number(label.number).String(profile.strings[label.unit]);
    }
    json.Close(']');
  }
  json.Close(']');
  const auto [place, added] = label_set_of_.emplace(json.text(), label_sets_.size());
  if (added) label_sets_.push_back(place->first);
  return place->second;
}

HtmlData::Series* HtmlData::SeriesOf(const std::string& file, bool is_base, const Profile& profile) {
  const std::string kind = KindOf(profile);
  std::string types;
  for (const auto& type : profile.sample_types) {
    types += fmt::format("{}/{} ", profile.strings[type.type], profile.strings[type.unit]);
  }
  std::string process(profile.CommentValue("process"));
  if (process.empty() || profile.duration_nanos != 0) process = "file " + file;
  for (Series& series : series_) {
    if (std::tie(series.is_base, series.kind, series.types, series.process) ==
        std::tie(is_base, kind, types, process)) {
      return &series;
    }
  }
  Series& series = series_.emplace_back();
  series.is_base = is_base;
  series.kind = kind;
  series.types = types;
  series.process = process;
  for (const auto& type : profile.sample_types) {
    series.metrics.emplace_back(profile.strings[type.type], profile.strings[type.unit]);
  }
  series.default_metric = DefaultMetric(profile);
  return &series;
}

bool HtmlData::Add(const std::string& file, bool is_base, const Profile& profile) {
  Series* series = SeriesOf(file, is_base, profile);
  for (const Snapshot& snapshot : series->snapshots) {
    if (snapshot.time_nanos == profile.time_nanos) return false;
  }
  Snapshot& snapshot = series->snapshots.emplace_back();
  snapshot.file = file;
  snapshot.time_nanos = profile.time_nanos;
  for (size_t m = 0; m < series->metrics.size(); ++m) snapshot.half_widths.push_back(HalfWidth(profile, m));
  snapshot.columns.resize(series->metrics.size());
  const bool is_newest = profile.time_nanos > series->newest_nanos || series->snapshots.size() == 1;
  if (is_newest) {
    series->newest_nanos = profile.time_nanos;
    series->sampling = SamplingOf(profile);
    series->losses = LossesOf(profile);
    series->period = profile.period;
    series->program = profile.CommentValue("program");
    if (series->program.empty() && !profile.mappings.empty()) {
      series->program = BaseName(profile.strings[profile.mappings[0].file]);
    }
    series->pid = profile.CommentValue("pid");
    series->comments.clear();
    for (const StringId comment : profile.comments) series->comments.emplace_back(profile.strings[comment]);
  }

  // Frames of each location, outermost first.
  std::vector<std::vector<uint32_t>> frames(profile.locations.size());
  for (size_t i = 0; i < profile.locations.size(); ++i) {
    const Profile::Location& location = profile.locations[i];
    uint32_t object = 0;
    std::string_view path;
    if (location.mapping != Profile::kNone) {
      const Profile::Mapping& mapping = profile.mappings[location.mapping];
      path = profile.strings[mapping.file];
      object = ObjectOf(path, profile.strings[mapping.build_id]);
    }
    const std::string nameless = path.empty() ? "<unknown>" : fmt::format("[{}]", BaseName(path));
    const auto function_of = [&](std::string_view name, std::string_view file, int64_t start_line) {
      const uint32_t function = FunctionOf(name.empty() ? nameless : name, file, start_line);
      if (name.empty()) functions_[function].nameless = true;
      return function;
    };
    const auto lines = profile.LinesOf(location);
    for (size_t k = lines.size(); k-- > 0;) {
      const Profile::Function& function = profile.functions[lines[k].function];
      frames[i].push_back(FrameOf({.function = function_of(profile.strings[function.name],
                                                           profile.strings[function.filename], function.start_line),
                                   .object = object,
                                   .line = std::max<int64_t>(0, lines[k].line),
                                   .is_inlined = k + 1 < lines.size()}));
    }
    if (lines.empty()) frames[i].push_back(FrameOf({.function = function_of("", "", 0), .object = object}));
  }
  if (is_newest) AddLocks(profile, frames, series);
  for (size_t i = 0; i < profile.samples.size(); ++i) {
    uint32_t node = kRoot;
    const auto stack = profile.FramesOf(profile.samples[i]);
    for (size_t k = stack.size(); k-- > 0;) {
      for (const uint32_t frame : frames[stack[k]]) node = NodeOf(node, frame);
    }
    const uint32_t labels = LabelSetOf(profile, profile.samples[i]);
    const auto [place, added] = series->row_of.emplace(uint64_t{node} << 32 | labels, series->rows.size());
    if (added) series->rows.emplace_back(node, labels);
    const auto values = profile.ValuesOf(i);
    for (size_t m = 0; m < values.size(); ++m) {
      auto& column = snapshot.columns[m];
      if (column.size() < series->rows.size()) column.resize(series->rows.size());
      column[place->second] =
          static_cast<int64_t>(static_cast<uint64_t>(column[place->second]) + static_cast<uint64_t>(values[m]));
    }
  }
  return true;
}

uint32_t HtmlData::NodeOfStack(const std::vector<std::vector<uint32_t>>& frames, const std::vector<uint32_t>& stack) {
  uint32_t node = kRoot;
  for (size_t k = stack.size(); k-- > 0;) {
    for (const uint32_t frame : frames[stack[k]]) node = NodeOf(node, frame);
  }
  return node;
}

void HtmlData::AddLocks(const Profile& profile, const std::vector<std::vector<uint32_t>>& frames, Series* series) {
  const LockList list = ReadLockList(profile);
  series->locks.clear();
  series->pairs.clear();
  const auto function_of = [&](const std::string& name) { return name == "-" ? kNoFunction : FunctionOf(name, "", 0); };
  for (const LockList::Lock& lock : list.locks) {
    series->locks.push_back({
        .number = lock.number,
        .name = NameOf(profile, list, lock),
        .kind = KindOf(lock),
        .contentions = lock.contentions,
        .delay_ns = lock.delay_ns,
        .longest_ns = lock.longest_ns,
        .holds = lock.holds,
        .hold_ns = lock.hold_ns,
        .top_holder = function_of(TopFunctionOf(profile, list, lock.number, LockSide::kHolder)),
        .top_waiter = function_of(TopFunctionOf(profile, list, lock.number, LockSide::kWaiter)),
    });
  }
  for (const LockList::Pair& pair : list.pairs) {
    if (!std::isfinite(pair.contentions) || !std::isfinite(pair.delay_ns)) continue;
    LockPair& added = series->pairs.emplace_back();
    added.lock = pair.lock;
    added.contentions = pair.contentions;
    added.delay_ns = pair.delay_ns;
    const auto name = [&](int stack, uint32_t* node, uint32_t* function) {
      if (stack < 0 || static_cast<size_t>(stack) >= list.stacks.size()) return;
      *node = NodeOfStack(frames, list.stacks[static_cast<size_t>(stack)]);
      *function = function_of(holdfast::FunctionOf(profile, list.stacks[static_cast<size_t>(stack)]));
    };
    name(pair.holder, &added.holder, &added.holder_function);
    name(pair.waiter, &added.waiter, &added.waiter_function);
  }
}

void HtmlData::AddSources(size_t max_bytes) {
  std::map<std::string, std::set<int64_t>> lines;
  for (const Frame& frame : frames_) {
    const std::string& file = functions_[frame.function].file;
    if (!file.empty() && frame.line > 0) lines[file].insert(frame.line);
  }
  size_t bytes = 0;
  for (const auto& [file, wanted] : lines) {
    SourceText source = ReadSource(file, wanted);
    if (source.chunks.empty() || bytes + source.bytes > max_bytes) continue;
    bytes += source.bytes;
    sources_.push_back(std::move(source));
  }
}

void HtmlData::AddGrowths(Growths growths) {
  for (GrowingStack& stack : growths.stacks) {
    for (const std::string& name : stack.frames) stack.functions.push_back(FunctionOf(name, "", 0));
    stack.frames.clear();
  }
  growths_.push_back(std::move(growths));
}

}  // namespace holdfast
