#include "report/show/merge_command.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/locks/lock_merger.h"
#include "report/analysis/profiles/live_processes.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/profile_merger.h"
#include "report/analysis/variance.h"
#include "report/base/atomic_file.h"
#include "report/base/printable.h"
#include "report/base/progress.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/profile/object_names.h"
#include "report/profile/pprof.h"
#include "report/profile/process_comments.h"
#include "report/profile/profile_kind.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

absl::StatusOr<int64_t> ParseAmount(std::string_view option, const std::string& text, int64_t otherwise,
                                    std::string_view unit) {
  if (text.empty()) return otherwise;
  const auto value = unit == "nanoseconds" ? ParseTimeNs(text) : ParseByteSize(text);
  if (!value.ok()) {
    return absl::InvalidArgumentError(fmt::format("{} {}.", option, std::string(value.status().message())));
  }
  return static_cast<int64_t>(std::min<uint64_t>(*value, std::numeric_limits<int64_t>::max()));
}

// The files that count, and for differences the base of each. `ended`: the `files` of processes that ended
// before the others; only what grows counts.
struct Chosen {
  std::vector<const ProfileFile*> files, minus;
  std::set<const ProfileFile*> ended = {};

  void FindEnded() {
    std::vector<const ProfileFile*> kept = files;
    for (const ProfileFile* file : TakeEnded(&kept)) ended.insert(file);
  }
};

absl::StatusOr<Chosen> Choose(ProfileSet* set, const MergeOptions& options, std::ostream& err) {
  Chosen chosen;
  if (options.mode == MergeMode::kSum) {
    auto files = FilesThatCount(set, options.view, err);
    if (!files.ok()) return files.status();
    chosen.files = *std::move(files);
    if (!options.view.ended) chosen.FindEnded();
    return chosen;
  }
  std::ostream nowhere(nullptr);
  if (const auto one_kind = FilesThatCount(set, options.view, nowhere); !one_kind.ok()) return one_kind.status();
  for (const ProfileGroup& group : set->groups) {
    if (options.mode == MergeMode::kAverage) {
      for (const ProfileFile& file : group.files) chosen.files.push_back(&file);
      continue;
    }
    if (group.process.empty() || group.files.size() < 2) {
      err << "holdfast: " << Printable(group.newest().path)
          << ": skipped, because its process has no earlier snapshot to subtract.\n";
      continue;
    }
    chosen.files.push_back(&group.files.back());
    chosen.minus.push_back(&group.files.front());
  }
  if (chosen.files.empty()) {
    return absl::InvalidArgumentError(
        "merge --difference: no process has two snapshots. Give the folder that holds them.");
  }
  if (options.mode == MergeMode::kDifference && !options.view.ended) chosen.FindEnded();
  return chosen;
}

// Says what the sum is of: as records, and as comments for people.
void DescribeMerge(const Chosen& chosen, const MergeOptions& options, const Merged& merged, std::ostream& err) {
  Profile& profile = *merged.profile;
  record::Profile& records = *profile.mutable_records();
  const auto say = [&profile](const std::string& text) { profile.AddComment(Printable(text)); };
  std::set<std::string> processes;
  std::set<std::pair<int64_t, std::string>> intervals;
  std::vector<std::string> programs;
  std::vector<const Profile*> profiles;
  uint64_t losses[kLosses] = {};
  std::optional<int64_t> resident = 0;  // the sum, if each file states it and is of another process
  for (const ProfileFile* file : chosen.files) {
    profiles.push_back(file->profile.get());
    const std::optional<int64_t> of_file = ResidentBytesOf(*file->profile);
    const bool is_new = processes.insert(file->process).second;
    if (!chosen.ended.contains(file)) {
      resident = resident.has_value() && of_file.has_value() && is_new ? std::optional(WrappedSum(*resident, *of_file))
                                                                       : std::nullopt;
    }
    const auto& sampling = file->profile->records().sampling;
    if (sampling.has_value() && !sampling->interval.empty()) {
      for (const Interval& interval : IntervalsOf(*file->profile)) intervals.emplace(interval.mean, interval.unit);
    }
    const std::string& program = file->profile->process().program;
    const bool is_known = std::find(programs.begin(), programs.end(), program) != programs.end();
    if (!program.empty() && !is_known) programs.push_back(program);
    for (const record::Loss& loss : file->profile->records().loss) {
      const auto cause = std::find(std::begin(kLossNames), std::end(kLossNames), loss.cause);
      if (cause != std::end(kLossNames)) losses[cause - std::begin(kLossNames)] += loss.count;
    }
  }
  record::Process& process = *profile.mutable_process();
  if (chosen.files[0]->kind_stated) process.kind = chosen.files[0]->kind;
  constexpr size_t kPrograms = 3;
  const size_t more = programs.size() - std::min(programs.size(), kPrograms);
  programs.resize(programs.size() - more);
  if (!programs.empty()) {
    process.program =
        Printable(fmt::format("{}{}", fmt::join(programs, ", "), more == 0 ? "" : fmt::format(" and {} more", more)));
  }
  // A mean or a sum belongs to no process; a difference of one process still belongs to that process.
  if (processes.size() == 1 && options.mode == MergeMode::kDifference) process.id = *processes.begin();
  AddProcessComments(&profile);
  const auto with_unit = [](const auto& interval) { return fmt::format("{} {}", interval.first, interval.second); };
  if (!intervals.empty()) {
    record::Sampling& sampling = records.sampling.emplace();
    sampling.interval_in_part = intervals.size() > 1;
    for (const auto& [mean, unit] : intervals) sampling.interval.push_back({.mean = mean, .unit = unit});
    // Most of the error comes from the largest.
    say("interval: " + with_unit(*intervals.rbegin()));
  }
  if (intervals.size() > 1) {
    for (const auto& interval : intervals) say("interval in part: " + with_unit(interval));
    SayTo(
        err,
        "the files have different sampling intervals, or one was changed, so the errors of single rows are approximate.");
  }
  AddAgesKnown(profiles, &profile);
  record::Merged& made = records.merged.emplace();
  made.how = options.mode == MergeMode::kSum          ? record::MergeMode::kSum
             : options.mode == MergeMode::kDifference ? record::MergeMode::kDifference
                                                      : record::MergeMode::kMean;
  made.files = chosen.files.size();
  const char* how = options.mode == MergeMode::kSum          ? "sum of"
                    : options.mode == MergeMode::kDifference ? "difference of snapshots of"
                                                             : "mean of";
  say(fmt::format("merged: {} {} file{}{}", how, chosen.files.size(), chosen.files.size() == 1 ? "" : "s",
                  options.mode == MergeMode::kDifference ? " from earlier ones" : ""));
  if (!chosen.ended.empty())
    say(fmt::format("ended earlier: {} of these, what they held is left out", chosen.ended.size()));
  constexpr size_t kNamed = 100;
  for (size_t i = 0; i < chosen.files.size() && i < kNamed; ++i) made.from.push_back(chosen.files[i]->path);
  const size_t types = profile.sample_types.size();
  for (size_t type = 0; !merged.variances.empty() && type < types; ++type) {
    double variance = 0;
    for (size_t i = type; i < merged.variances.size(); i += types) variance += merged.variances[i];
    AddTotal(type, HalfWidthOf(variance), &profile);
  }
  for (const ProfileFile* file : chosen.files) ObjectNames(*file->profile).AddTo(&profile);
  if (resident.has_value() && options.mode == MergeMode::kSum)
    process.resident_bytes = static_cast<uint64_t>(*resident);
  for (int i = 0; i < kLosses; ++i) {
    if (losses[i] == 0) continue;
    records.loss.push_back({kLossNames[i], losses[i]});
    say(fmt::format("lost {}: {}", kLossNames[i], losses[i]));
  }
  if (records.loss.empty()) say("losses: none");
}

}  // namespace

int RunMerge(const MergeOptions& options, std::ostream& out, std::ostream& err) {
  Progress progress("reading profile");
  auto set = ReadProfileSet(options.view.files,
                            {.keep = options.mode == MergeMode::kSum ? KeepProfiles::kNewest : KeepProfiles::kAll,
                             .kind = options.view.kind,
                             .progress = [&](size_t done, size_t all) { progress.Show(done, all); }});
  progress.Clear();
  if (!set.ok()) return Failed(set.status(), err);
  auto chosen = Choose(&*set, options, err);
  if (!chosen.ok()) return Failed(chosen.status(), err);
  const auto view = ViewOf({chosen->files[0]}, options.view);
  if (!view.ok()) return Failed(view.status(), err);
  const auto low = ParseAmount("--min-total", options.min_total, std::numeric_limits<int64_t>::min(), view->unit_name);
  const auto high = ParseAmount("--max-total", options.max_total, std::numeric_limits<int64_t>::max(), view->unit_name);
  for (const auto* bound : {&low, &high}) {
    if (!bound->ok()) return Failed(bound->status(), err);
  }
  for (size_t i = chosen->files.size(); i-- > 0;) {
    const int64_t total = chosen->files[i]->profile->Total(view->metric);
    if (total >= *low && total <= *high) continue;
    chosen->ended.erase(chosen->files[i]);
    chosen->files.erase(chosen->files.begin() + static_cast<ptrdiff_t>(i));
    if (!chosen->minus.empty()) chosen->minus.erase(chosen->minus.begin() + static_cast<ptrdiff_t>(i));
  }
  if (chosen->files.empty()) {
    return Failed(absl::NotFoundError(fmt::format(
                      "merge: no file has a total of {} within these bounds. Change --min-total or --max-total.",
                      view->metric_name)),
                  err);
  }
  std::vector<size_t> growing;
  const Profile& first = *chosen->files[0]->profile;
  for (size_t i = 0; i < first.sample_types.size(); ++i) {
    if (IsCounter(first.strings[first.sample_types[i].type])) growing.push_back(i);
  }
  ProfileMerger merger;
  LockMerger locks(&merger);
  for (const ProfileFile* file : chosen->files) {
    const bool is_ended = chosen->ended.contains(file);
    if (is_ended && growing.empty()) continue;
    const auto added =
        merger.Add(*file->profile, VariancesOf(*file->profile), 0, is_ended ? growing : std::vector<size_t>());
    if (!added.ok())
      return Failed(absl::InvalidArgumentError(fmt::format("{}: {}.", file->path, std::string(added.message()))), err);
    locks.Add(*file->profile, file->process);
  }
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (const ProfileFile* file : chosen->minus) {
    const auto taken = merger.Subtract(*file->profile, VariancesOf(*file->profile), growing);
    if (!taken.ok())
      return Failed(absl::InvalidArgumentError(fmt::format("{}: {}.", file->path, std::string(taken.message()))), err);
    locks.Subtract(*file->profile, file->process);
    begin = std::min(begin, file->time_nanos);
  }
  for (const ProfileFile* file : chosen->files) end = std::max(end, file->time_nanos);
  if (options.mode == MergeMode::kAverage) merger.Scale(1.0 / static_cast<double>(chosen->files.size()));
  Merged merged = merger.Take();
  merged.profile->time_nanos = end;
  if (options.mode == MergeMode::kDifference) merged.profile->duration_nanos = std::max<int64_t>(1, end - begin);
  DescribeMerge(*chosen, options, merged, err);
  if (!chosen->ended.empty()) {
    SayTo(err, fmt::format("{} of {} processes ended before the others: what {} held at {} is not in the sum (--ended "
                           "adds it).",
                           chosen->ended.size(), chosen->files.size(), chosen->ended.size() == 1 ? "it" : "they",
                           chosen->ended.size() == 1 ? "its end" : "their ends"));
  }
  if (options.mode != MergeMode::kAverage) locks.WriteTo(merged.profile.get());
  const auto written = WriteAtomically(options.output, EncodePprof(*merged.profile), out);
  return written.ok() ? 0 : Failed(written, err);
}

}  // namespace holdfast
