#include "report/page/report_builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "fmt/format.h"
#include "report/analysis/how_to_name.h"
#include "report/analysis/locks/idle_waits.h"
#include "report/analysis/locks/lock_classes.h"
#include "report/analysis/locks/lock_list.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/live_processes.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/short_name.h"
#include "report/base/base_name.h"
#include "report/base/json_text.h"
#include "report/base/utf8.h"
#include "report/base/visible_directions.h"
#include "report/observe/memory/account_records.h"

namespace holdfast {

ReportBuilder::ReportBuilder(std::vector<std::string> plumbing, std::vector<std::string> arguments, bool across_builds)
    : patterns_(std::move(plumbing)), arguments_(std::move(arguments)), across_builds_(across_builds) {
  parents_.push_back(kRoot);
  node_frames_.push_back(kNoFrame);
}

uint32_t ReportBuilder::FunctionNumber(std::string_view name, std::string_view file, int64_t start_line) {
  const std::string identity = across_builds_ ? NameAcrossBuilds(name) : SourceName(name);
  const auto [place, added] = function_of_.emplace(WithVisibleDirections(RepairUtf8(identity)), functions_.size());
  if (added) functions_.push_back({.name = place->first, .file = ""});
  Function& function = functions_[place->second];
  if (function.file.empty() && !file.empty()) {
    function.file = RepairUtf8(file);
    function.start_line = start_line;
  }
  return place->second;
}

uint32_t ReportBuilder::FrameOf(const Frame& frame) {
  const auto [place, added] = frame_of_.emplace(frame.Key(), frames_.size());
  if (added) frames_.push_back(frame);
  return place->second;
}

uint32_t ReportBuilder::ObjectOf(std::string_view path, std::string_view build_id) {
  if (path.empty()) return 0;
  const auto [place, added] =
      object_of_.emplace(std::pair(std::string(path), std::string(build_id)), objects_.size() + 1);
  if (added) objects_.push_back(place->first);
  return place->second;
}

uint32_t ReportBuilder::NodeOf(uint32_t parent, uint32_t frame) {
  const auto [place, added] = node_of_.emplace(uint64_t{parent} << 32 | frame, parents_.size());
  if (added) {
    parents_.push_back(parent);
    node_frames_.push_back(frame);
  }
  return place->second;
}

uint32_t ReportBuilder::LabelSetOf(const Profile& profile, const Profile::Sample& sample) {
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

ReportBuilder::Series* ReportBuilder::SeriesOf(const ProfileFile& file, bool is_base) {
  const std::string process = file.adds_up() ? "file " + file.path : file.process;
  for (Series& series : series_) {
    if (std::tie(series.is_base, series.kind, series.types, series.process) ==
        std::tie(is_base, file.kind, file.types, process)) {
      return &series;
    }
  }
  Series& series = series_.emplace_back();
  series.is_base = is_base;
  series.kind = file.kind;
  series.types = file.types;
  series.process = process;
  const Profile& profile = *file.profile;
  for (const auto& type : profile.sample_types) {
    series.metrics.emplace_back(profile.strings[type.type], profile.strings[type.unit]);
  }
  series.default_metric = DefaultMetric(profile);
  return &series;
}

namespace {

FilteredStacks WholeStacksOf(const ProfileFile& file) {
  std::vector<size_t> columns(file.profile->sample_types.size());
  std::iota(columns.begin(), columns.end(), 0);
  return FilteredStacks::Build(file.profile, std::move(columns), {.single_frames = true})
      .value();  // cannot fail without filters
}

}  // namespace

std::vector<uint32_t> ReportBuilder::FramesOf(const FilteredStacks& stacks) {
  const Profile& profile = stacks.profile();
  std::vector<uint32_t> frames;
  for (const FrameNode& node : stacks.nodes()) {
    uint32_t object = 0;
    if (node.mapping != Profile::kNone) {
      const Profile::Mapping& mapping = profile.mappings[node.mapping];
      object = ObjectOf(profile.strings[mapping.file], profile.strings[mapping.build_id]);
    }
    const int64_t start_line =
        node.profile_function == Profile::kNone ? 0 : profile.functions[node.profile_function].start_line;
    const uint32_t function = FunctionNumber(node.name, profile.strings[node.file], start_line);
    if (node.function == 0) functions_[function].nameless = true;
    frames.push_back(FrameOf({.function = function,
                              .object = object,
                              .line = std::max<int64_t>(0, node.line),
                              .is_inlined = node.is_inlined}));
  }
  return frames;
}

bool ReportBuilder::Add(const ProfileFile& file, bool is_base, bool newest) {
  const Profile& profile = *file.profile;
  Series* series = SeriesOf(file, is_base);
  for (const Snapshot& snapshot : series->snapshots) {
    if (snapshot.time_nanos == file.time_nanos) return false;
  }
  Snapshot& snapshot = series->snapshots.emplace_back();
  snapshot.file = file.path;
  snapshot.time_nanos = file.time_nanos;
  for (size_t m = 0; m < series->metrics.size(); ++m) snapshot.half_widths.push_back(HalfWidth(profile, m));
  snapshot.resident_bytes = ResidentBytesOf(profile);
  if (file.kind == "heap") {
    if (const std::optional<MemoryAccount> account = AccountOf(profile)) snapshot.account = AccountLines(*account);
  }
  snapshot.columns.resize(series->metrics.size());

  const FilteredStacks stacks = WholeStacksOf(file);
  const std::vector<uint32_t> frames = FramesOf(stacks);
  if (newest || series->snapshots.size() == 1) AddDetails(file, stacks, frames, series);
  for (size_t i = 0; i < stacks.size(); ++i) {
    const uint32_t row = RowOf(stacks, i, frames, series);
    const auto values = stacks.ValuesOf(i);
    for (size_t m = 0; m < values.size(); ++m) {
      auto& column = snapshot.columns[m];
      if (column.size() < series->rows.size()) column.resize(series->rows.size());
      column[row] = WrappedSum(column[row], values[m]);
    }
  }
  return true;
}

std::vector<std::string> ReportBuilder::Arrange(const ProfileSet& set, bool is_base) {
  std::map<std::string_view, size_t> age;  // position within the group
  std::map<std::string_view, int64_t> freed_at_exit;
  for (const ProfileGroup& group : set.groups) {
    for (size_t i = 0; i < group.files.size(); ++i) {
      age[group.files[i].path] = i;
      freed_at_exit[group.files[i].path] = group.files[i].freed_at_exit;
    }
  }
  std::vector<std::string> newest;
  for (Series& series : series_) {
    if (series.is_base != is_base) continue;
    // Remove what the set leaves out.
    std::erase_if(series.snapshots, [&](const Snapshot& snapshot) { return !age.contains(snapshot.file); });
    std::stable_sort(series.snapshots.begin(), series.snapshots.end(),
                     [&](const Snapshot& a, const Snapshot& b) { return age[a.file] < age[b.file]; });
    series.freed_at_exit = freed_at_exit[series.snapshots.back().file];
    if (series.snapshots.back().file != series.details_of) newest.push_back(series.snapshots.back().file);
  }
  return newest;
}

void ReportBuilder::MarkEnded(const ProfileSet& set, bool is_base) {
  for (const std::string& kind : set.Kinds()) {
    std::vector<const ProfileFile*> files;
    for (const ProfileGroup& group : set.groups) {
      if (group.kind != kind) continue;
      for (const ProfileFile& file : group.files) {
        if (group.Counts(file)) files.push_back(&file);
      }
    }
    for (const ProfileFile* file : TakeEnded(&files)) {
      for (Series& series : series_) {
        if (series.is_base == is_base && series.kind == kind && series.process == file->process) series.is_ended = true;
      }
    }
  }
}

void ReportBuilder::TakeDetails(const ProfileFile& file, bool is_base) {
  const FilteredStacks stacks = WholeStacksOf(file);
  AddDetails(file, stacks, FramesOf(stacks), SeriesOf(file, is_base));
}

void ReportBuilder::AddDetails(const ProfileFile& file, const FilteredStacks& stacks,
                               const std::vector<uint32_t>& frames, Series* series) {
  const Profile& profile = *file.profile;
  series->details_of = file.path;
  series->sampling = SamplingOf(profile);
  series->losses = LossesOf(profile);
  series->older_blocks = OlderBlocksIn(profile);
  series->period = profile.period;
  series->program = profile.process().program;
  if (series->program.empty() && !profile.mappings.empty()) {
    series->program = BaseName(profile.strings[profile.mappings[0].file]);
  }
  series->pid = profile.process().pid == 0 ? "" : fmt::format("{}", profile.process().pid);
  series->comments.clear();
  for (const StringId comment : profile.comments) series->comments.emplace_back(profile.strings[comment]);
  series->records = profile.records();
  series->records.waits.reset();
  series->records.threads.reset();
  series->records.account.reset();
  series->records.course.reset();
  if (auto& locks = series->records.locks; locks.has_value()) {
    locks->lock.clear();
    locks->stack.clear();
    locks->pair.clear();
    locks->site.clear();
  }
  Plumbing plumbing = Plumbing::Make(profile, patterns_).value();  // cannot fail: the patterns compile
  AddPlumbing(stacks, frames, &plumbing, series);
  AddLocks(stacks, frames, &plumbing, series);
}

// Records which functions are plumbing and how they are displayed. If the rows of a snapshot are known, also records
// which waits are not for locks.
void ReportBuilder::AddPlumbing(const FilteredStacks& stacks, const std::vector<uint32_t>& frames, Plumbing* plumbing,
                                Series* series) {
  const Profile& profile = stacks.profile();
  const auto allocated = FindMetric(profile, "alloc_space");
  const size_t in_use = series->default_metric;
  const bool all_was_freed =
      allocated.ok() && AllWasFreed(static_cast<double>(profile.Total(in_use)), HalfWidth(profile, in_use).value_or(0),
                                    static_cast<double>(profile.Total(*allocated)));
  const size_t metric = all_was_freed ? *allocated : series->default_metric;
  if (series->kind == "heap") series->own_memory = OwnMemory::Of(profile, series->process, plumbing);
  if (series->kind == "block") {
    series->held_lock_delay_ns = HeldLockDelay(profile, plumbing);
    series->lock_trouble = LockTroubleOf(profile, plumbing);
  }
  series->how_to_name = HowToName(UnnamedCodeOf(profile, metric, plumbing), arguments_);
  // A function is plumbing if it is plumbing at any location.
  std::map<uint32_t, bool> holds;
  for (size_t i = 0; i < frames.size(); ++i) {
    const FrameNode& node = stacks.nodes()[i];
    const auto [place, added] = holds.try_emplace(frames_[frames[i]].function, true);
    place->second = place->second && plumbing->Holds(node.profile_function, node.mapping);
    if (node.mapping == Profile::kNone) continue;
    const std::string path(profile.strings[profile.mappings[node.mapping].file]);
    if (const std::string_view called = stacks.object_names().Of(path); called != BaseName(path))
      called_[path] = called;
  }
  series->plumbing.clear();
  for (const auto& [function, is_plumbing] : holds) {
    if (is_plumbing) series->plumbing.push_back(function);
  }
  series->ranks.clear();
  const IdleWaits idle(profile, plumbing);
  for (size_t i = 0; idle.any() && i < stacks.size(); ++i) {
    const Profile::Sample& sample = profile.samples[stacks.SampleOf(i)];
    const WaitRank rank = idle.RankOf(sample);
    if (rank != WaitRank::kLock) series->ranks[RowOf(stacks, i, frames, series)] = rank;
  }
}

uint32_t ReportBuilder::RowOf(const FilteredStacks& stacks, size_t stack, const std::vector<uint32_t>& frames,
                              Series* series) {
  uint32_t node = kRoot;
  const auto nodes = stacks.FramesOf(stack);
  for (size_t k = nodes.size(); k-- > 0;) node = NodeOf(node, frames[nodes[k]]);
  const Profile& profile = stacks.profile();
  const uint32_t labels = LabelSetOf(profile, profile.samples[stacks.SampleOf(stack)]);
  const auto [place, added] = series->row_of.emplace(uint64_t{node} << 32 | labels, series->rows.size());
  if (added) series->rows.emplace_back(node, labels);
  return place->second;
}

void ReportBuilder::AddLocks(const FilteredStacks& stacks, const std::vector<uint32_t>& frames, Plumbing* plumbing,
                             Series* series) {
  const Profile& profile = stacks.profile();
  LockList list = ReadLockList(profile, plumbing);
  series->deadlocks = DeadlockText(profile);
  std::vector<std::string> names;
  for (const LockList::Lock& lock : list.locks) names.push_back(LockNameOf(profile, list, lock, plumbing));
  list = GroupByClass(profile, std::move(list), plumbing);
  series->how_to_name_locks = HowToNameLocks(profile, names, arguments_, series->how_to_name);
  series->locks.clear();
  series->pairs.clear();
  const auto function_of = [&](const std::string& name) {
    return name == "-" ? kNoFunction : FunctionNumber(name, "", 0);
  };
  const auto lengths_of = [](const TimeCounts& times, int64_t longest_ns) -> Lengths {
    const auto at = [&](double share) { return times.Percentile(share, longest_ns); };
    return {at(0.5), at(0.9), at(0.99), longest_ns > 0 ? longest_ns : -1};
  };
  for (const LockList::Lock& lock : list.locks) {
    series->locks.push_back({
        .number = lock.number,
        .name = WithVisibleDirections(ShortName(LockNameOf(profile, list, lock, plumbing))),
        .kind = LockKindOf(lock.kind),
        .contentions = lock.contentions,
        .delay_ns = lock.delay_ns,
        .longest_ns = lock.longest_ns,
        .holds = lock.holds,
        .hold_ns = lock.hold_ns,
        .top_holder = function_of(TopFunctionOf(profile, list, lock.number, LockSide::kHolder, plumbing)),
        .top_waiter = function_of(TopFunctionOf(profile, list, lock.number, LockSide::kWaiter, plumbing)),
        .rank = lock.rank,
        .waited = lengths_of(lock.wait_times, lock.longest_ns),
        .held = lengths_of(lock.hold_times, lock.longest_held_ns),
        .waiting = lock.waiting,
        .waiting_ns = lock.waiting_ns,
    });
  }
  for (const LockList::Pair& pair : list.pairs) {
    if (!std::isfinite(pair.contentions) || !std::isfinite(pair.delay_ns)) continue;
    PairOfStacks& added = series->pairs.emplace_back();
    added.lock = pair.lock;
    added.contentions = pair.contentions;
    added.delay_ns = pair.delay_ns;
    const auto lock = std::find_if(list.locks.begin(), list.locks.end(),
                                   [&](const LockList::Lock& one) { return one.number == pair.lock; });
    const auto name = [&](int number, LockSide side, uint32_t* node, uint32_t* function, int64_t* p99) {
      if (number < 0 || static_cast<size_t>(number) >= list.stacks.size()) return;
      const std::vector<uint32_t>& stack = list.stacks[static_cast<size_t>(number)];
      for (size_t k = stack.size(); k-- > 0;) {
        const auto nodes = stacks.NodesOf(stack[k]);
        for (size_t n = nodes.size(); n-- > 0;) *node = NodeOf(*node, frames[nodes[n]]);
      }
      const std::string owner = FunctionOf(profile, stack, plumbing);
      *function = function_of(owner);
      if (lock == list.locks.end()) return;
      const SiteLengths lengths = LengthsAtSites(profile, list, *lock, side, owner, plumbing);
      *p99 = lengths.times.Percentile(0.99, lengths.longest_ns);
    };
    name(pair.holder, LockSide::kHolder, &added.holder, &added.holder_function, &added.held_p99);
    name(pair.waiter, LockSide::kWaiter, &added.waiter, &added.waiter_function, &added.waited_p99);
  }
}

void ReportBuilder::AddSources(size_t max_bytes) {
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

void ReportBuilder::AddGrowths(Growths growths) {
  for (GrowingStack& stack : growths.stacks) {
    for (const std::string& name : stack.frames) stack.functions.push_back(FunctionNumber(name, "", 0));
    stack.frames.clear();
  }
  for (const std::string& name : growths.answer.largest) growths.largest.push_back(FunctionNumber(name, "", 0));
  growths_.push_back(std::move(growths));
}

}  // namespace holdfast
