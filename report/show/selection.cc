#include "report/show/selection.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/how_to_name.h"
#include "report/analysis/locks/idle_waits.h"
#include "report/analysis/profiles/live_processes.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/profile_merger.h"
#include "report/analysis/variance.h"
#include "report/base/base_name.h"
#include "report/base/printable.h"
#include "report/base/progress.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/observe/memory/account_records.h"
#include "report/observe/memory/account_text.h"
#include "report/profile/profile_kind.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr size_t kPeaksShown = 4;  // each is a line

bool HasMetric(const ProfileFile& file, std::string_view metric) {
  return (" " + file.types).find(fmt::format(" {}/", metric)) != std::string::npos;
}

absl::Status CheckUnit(const std::string& unit) {
  if (IsOutputUnit(unit)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("--unit {}: not a unit. Use auto, bytes, KiB, MiB, GiB, ns, us, ms or s.", unit));
}

absl::Status CheckUnitOf(const View& view) {
  if (FitsUnit(view.unit_name, view.output_unit)) return absl::OkStatus();
  const std::string_view others = OutputUnitsOf(view.unit_name);
  return absl::InvalidArgumentError(
      others.empty()
          ? fmt::format("--unit {}: {} is a number of {}. Leave --unit out.", view.output_unit, view.metric_name,
                        view.unit_name == "count" ? "things" : view.unit_name)
          : fmt::format("--unit {}: {} is in {}. Use {}.", view.output_unit, view.metric_name, view.unit_name, others));
}

// Joins the different texts in the order of the files, up to the length of a line.
std::string Joined(const std::vector<std::string>& all) {
  std::vector<std::string> texts;
  for (const std::string& text : all) {
    if (std::find(texts.begin(), texts.end(), text) == texts.end()) texts.push_back(text);
  }
  constexpr size_t kShown = 4;
  const size_t more = texts.size() > kShown ? texts.size() - kShown : 0;
  texts.resize(texts.size() - more);
  std::string joined = Printable(fmt::format("{}", fmt::join(texts, ", ")));
  if (more > 0) joined += fmt::format(" and {} more", more);
  return joined;
}

// Chooses one kind of profile. Among folders, takes the kind that fits the options.
absl::Status ChooseKind(ProfileSet* set, const ViewOptions& options, std::ostream& err) {
  if (set->Kinds().size() < 2) return absl::OkStatus();
  if (std::any_of(options.files.begin(), options.files.end(), NamesSeveralFiles)) {
    std::vector<std::string> kinds = set->Kinds();
    // The most informative kinds first.
    constexpr std::string_view kOrder[] = {"heap",       "block", "mutex", "map", "threads",
                                           "exceptions", "cpu",   "wall",  "peak"};
    if (!options.metric.empty()) {
      const auto has_it = [&](std::string_view kind) {
        return std::any_of(set->groups.begin(), set->groups.end(), [&](const ProfileGroup& group) {
          return group.kind == kind && HasMetric(group.newest(), options.metric);
        });
      };
      // Do not judge by the first process: it may have mapped memory and have no heap profile.
      std::stable_sort(kinds.begin(), kinds.end(), [&](const std::string& a, const std::string& b) {
        return std::find(std::begin(kOrder), std::end(kOrder), a) < std::find(std::begin(kOrder), std::end(kOrder), b);
      });
      const auto found = std::find_if(kinds.begin(), kinds.end(), has_it);
      if (found != kinds.end()) {
        set->KeepKind(std::string(*found));
        return absl::OkStatus();
      }
    }
    const auto chosen = std::find_if(std::begin(kOrder), std::end(kOrder), [&](std::string_view kind) {
      return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
    });
    const std::string kind = chosen != std::end(kOrder) ? std::string(*chosen) : kinds[0];
    if (kind != "heap") {
      std::erase(kinds, kind);
      SayTo(err, fmt::format("no heap profile found: showing the {} profile (--kind also accepts {}).", kind,
                             fmt::join(kinds, ", ")));
    }
    set->KeepKind(kind);
    return absl::OkStatus();
  }
  const ProfileFile& first = set->groups[0].files[0];
  for (const ProfileGroup& group : set->groups) {
    if (group.kind == first.kind) continue;
    return absl::InvalidArgumentError(
        fmt::format("{}: its kind ({}) differs from that of {} ({}). Give files of one kind.", group.files[0].path,
                    group.kind, first.path, first.kind));
  }
  return absl::OkStatus();
}

// Collects the objects that the exporter had no time or memory to symbolize, from the records of the symbolizer.
void AddUnfinished(const Profile& profile, std::vector<std::string>* objects) {
  const auto add = [&](std::string_view object) {
    if (std::find(objects->begin(), objects->end(), object) == objects->end()) objects->emplace_back(object);
  };
  for (const record::MissingNames& missing : profile.records().missing_names) {
    if (missing.not_in_time) add(BaseName(missing.path));
    if (missing.what == record::NamesMissing::kAll) add("");
  }
}

// Returns "shown: 12:34:11 (UTC), before the program freed memory at exit, 12:34:12".
std::string FreedAtExitText(const std::vector<std::pair<int64_t, int64_t>>& moments) {
  if (moments.size() > 1)
    return fmt::format("shown: {} processes as they were before they freed memory at exit", moments.size());
  const auto clock = [](int64_t time_nanos) {
    return absl::FormatTime("%H:%M:%S", absl::FromUnixNanos(time_nanos), absl::UTCTimeZone());
  };
  const std::string shown = clock(moments.front().first), freed = clock(moments.front().second);
  if (shown == freed) return fmt::format("shown: {} (UTC), just before the program freed memory at exit", shown);
  return fmt::format("shown: {} (UTC), before the program freed memory at exit, {}", shown, freed);
}

// Chooses the metric for files that have an amount in use as their default metric.
struct Opened {
  Opening opening = Opening::kInUse;
  int64_t left = 0;
};

Opened OpeningOfFiles(const std::vector<const ProfileFile*>& files, size_t metric,
                      const std::set<std::string>& with_peak, const ViewOptions& options) {
  const Profile& first = *files[0]->profile;
  const std::string_view name = first.strings[first.sample_types[metric].type];
  const auto same_types = [&](const ProfileFile* file) { return file->types == files[0]->types; };
  if (!std::all_of(files.begin(), files.end(), same_types)) return {};
  if (const auto created = FindMetric(first, "created"); name == "alive" && created.ok()) {
    OwnMemory threads;
    for (const ProfileFile* file : files) {
      threads.in_use += static_cast<double>(file->profile->Total(metric));
      threads.variance += std::pow(HalfWidth(*file->profile, metric).value_or(0), 2);
      threads.allocated += static_cast<double>(file->profile->Total(*created));
    }
    return {.opening = OpeningOf({threads}, {})};
  }
  if (name != "inuse_space") return {};
  Opened opened;
  std::vector<OwnMemory> heaps;
  for (const ProfileFile* file : files) {
    const auto plumbing = PlumbingOf(*file, options.stacks.plumbing);
    if (!plumbing.ok()) return {};  // the command says so later
    const auto heap = OwnMemory::Of(*file->profile, file->process, plumbing->get());
    if (!heap.has_value()) return {};
    opened.left = WrappedSum(opened.left, heap->left);
    heaps.push_back(*heap);
  }
  opened.opening = OpeningOf(heaps, with_peak);
  return opened;
}

// Returns the metric for all allocations or all threads.
size_t MetricOfAll(const Profile& profile, size_t metric) {
  const std::string_view name = profile.strings[profile.sample_types[metric].type];
  return FindMetric(profile, name == "alive" ? "created" : "alloc_space").value_or(metric);
}

// Whether rows or filters use ages, which are known for few blocks only.
bool LooksAtAges(const StackOptions& options) {
  const auto names = [](const std::string& filter) {
    return filter.find("age") != std::string::npos || filter.find("freed") != std::string::npos;
  };
  return options.by == "age" || options.by == "freed" || names(options.tag_focus) || names(options.tag_ignore);
}

}  // namespace

std::string View::Value(int64_t value) const { return FormatValue(value, unit_name, output_unit); }

bool HasFilter(const StackOptions& o) {
  return !(o.focus.empty() && o.ignore.empty() && o.hide.empty() && o.show.empty() && o.show_from.empty() &&
           o.tag_focus.empty() && o.tag_ignore.empty());
}

absl::Status NothingLeft() {
  return absl::NotFoundError("these filters leave no stack. List the names with holdfast top, or remove a filter.");
}

Cell View::ErrorCell(double variance, bool known) const {
  if (!known) return Cell::Real("", std::nan(""));
  const double half_width = HalfWidthOf(variance);
  return Cell::Real("±" + Value(static_cast<int64_t>(std::min(9e18, std::round(half_width)))), std::round(half_width));
}

void View::SetEnded(const std::vector<const ProfileFile*>& files_of_ended) {
  ended = files_of_ended.size();
  ended_value = 0;
  for (const ProfileFile* file : files_of_ended) ended_value = WrappedSum(ended_value, file->profile->Total(metric));
}

std::string View::EndedText() const {
  return fmt::format("{} more {} exited earlier with {} in use, not included in the total (--ended adds {})", ended,
                     ended == 1 ? "process" : "processes", Value(ended_value), ended == 1 ? "it" : "them");
}

absl::StatusOr<std::vector<const ProfileFile*>> FilesThatCount(ProfileSet* set, const ViewOptions& options,
                                                               std::ostream& err) {
  for (const std::string& warning : set->warnings) SayTo(err, warning);
  if (const auto one_kind = ChooseKind(set, options, err); !one_kind.ok()) return one_kind;
  std::vector<const ProfileFile*> files;
  std::vector<std::string> left_out;
  for (const ProfileGroup& group : set->groups) {
    for (const ProfileFile& file : group.files) {
      if (group.Counts(file)) {
        files.push_back(&file);
      } else if (!file.from_folder) {
        left_out.push_back(
            fmt::format("{}: skipped, because {} is a later snapshot of the same process and includes it.", file.path,
                        group.NewestCumulative()->path));
      }
    }
  }
  constexpr size_t kNamed = 3;
  if (left_out.size() > kNamed) {
    left_out = {fmt::format("skipped {} older snapshots: the newest of each process includes them.", left_out.size())};
  }
  for (const std::string& line : left_out) SayTo(err, line);
  return files;
}

std::vector<const ProfileFile*> EndedOf(std::vector<const ProfileFile*>* files, const ViewOptions& options) {
  if (options.ended || files->size() < 2) return {};
  std::vector<const ProfileFile*> kept = *files;
  std::vector<const ProfileFile*> ended = TakeEnded(&kept);
  if (ended.empty()) return {};
  const Profile& first = *kept.front()->profile;
  const auto asked = FindMetric(first, options.metric);
  if (!asked.ok()) return {};
  const bool shows_all =
      options.metric.empty() && OpeningOfFiles(kept, *asked, {}, options).opening == Opening::kAllocated;
  const size_t metric = shows_all ? MetricOfAll(first, *asked) : *asked;
  if (IsCounter(first.strings[first.sample_types[metric].type])) return {};
  *files = std::move(kept);
  return ended;
}

absl::StatusOr<View> ViewOf(std::vector<const ProfileFile*> files, const ViewOptions& options) {
  if (const auto unit = CheckUnit(options.unit); !unit.ok()) return unit;
  View view;
  view.output_unit = options.unit;
  view.files = files.size();
  const Profile& first = *files[0]->profile;
  const auto metric = FindMetric(first, options.metric);
  if (!metric.ok()) {
    return absl::InvalidArgumentError(fmt::format("{}: {}", files[0]->path, std::string(metric.status().message())));
  }
  view.metric = *metric;
  if (options.metric.empty()) {
    const Opened opened = OpeningOfFiles(files, *metric, {}, options);
    view.opening = opened.opening;
    view.left = opened.left;
    if (opened.opening == Opening::kAllocated) view.metric = MetricOfAll(first, *metric);
  }
  view.default_metric = *metric;
  view.metric_name = first.strings[first.sample_types[view.metric].type];
  view.unit_name = first.strings[first.sample_types[view.metric].unit];
  if (const auto unit = CheckUnitOf(view); !unit.ok()) return unit;
  if (files[0]->kind_stated) view.kind = files[0]->kind;
  std::vector<std::string> samplings;
  std::vector<std::pair<uint64_t, std::string>> programs, peaks;  // with their values, to name the largest first
  double variance = 0;
  bool stated = true;
  for (const ProfileFile* file : files) {
    if (file->types != files[0]->types) {
      return absl::InvalidArgumentError(
          fmt::format("{}: its kind ({}) differs from that of {} ({}). Give files of one kind.", file->path,
                      file->types, files[0]->path, files[0]->types));
    }
    programs.emplace_back(Magnitude(file->profile->Total(view.metric)), file->program);
    samplings.push_back(SamplingOf(*file->profile));
    if (const auto resident = ResidentBytesOf(*file->profile); resident.has_value() && view.kind == "heap") {
      ++view.resident_files;
      view.resident_bytes = WrappedSum(view.resident_bytes, *resident);
    }
    if (const auto& pages = file->profile->records().pages; pages.has_value() && view.kind == kResidentKind) {
      ++view.files_with_pages;
      view.swapped_bytes = WrappedSum(view.swapped_bytes, pages->swapped_bytes);
      view.files_with_huge += pages->huge_known ? 1 : 0;
      view.huge_bytes = WrappedSum(view.huge_bytes, pages->huge_bytes);
    }
    if (file->freed_at_exit != 0) view.freed_at_exit.emplace_back(file->time_nanos, file->freed_at_exit);
    AddUnfinished(*file->profile, &view.unfinished);
    const auto half_width = HalfWidth(*file->profile, view.metric);
    stated = stated && half_width.has_value();
    variance += half_width.value_or(0) * half_width.value_or(0);
    if (const auto highest = PeakBytesOf(*file->profile); highest && (file->kind == "peak" || file->kind == "heap")) {
      view.peak_bytes = WrappedSum(view.peak_bytes.value_or(0), *highest);
      const int64_t missing = PeakMissingBytesOf(*file->profile);
      view.peak_missing_bytes = WrappedSum(view.peak_missing_bytes, missing);
      if (*highest >= view.highest_peak_bytes.value_or(0)) {
        view.highest_peak_bytes = highest;
        view.highest_peak_missing_bytes = missing;
      }
      const int64_t seen = PeakStacksBytesOf(*file->profile).value_or(*highest);
      view.peak_stacks_bytes = WrappedSum(view.peak_stacks_bytes.value_or(0), seen);
    }
    if (file->kind == "peak") {
      if (std::string peak = PeakOf(*file->profile); !peak.empty())
        peaks.emplace_back(programs.back().first, files.size() > 1 ? fmt::format("{}: {}", file->program, peak) : peak);
    }
    if (const std::string older = OlderBlocksIn(*file->profile);
        !older.empty() && view.older_blocks.size() < kPeaksShown)
      view.older_blocks.push_back(files.size() > 1 ? fmt::format("{}: {}", file->program, older) : older);
    for (const std::string& loss : LossesOf(*file->profile)) {
      view.losses.push_back(files.size() > 1 ? fmt::format("{}: {}", file->program, loss) : loss);
    }
  }
  for (auto* named : {&programs, &peaks})
    std::stable_sort(named->begin(), named->end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  if (peaks.size() > kPeaksShown) peaks.resize(kPeaksShown);
  for (auto& [total, peak] : peaks) view.peaks.push_back(std::move(peak));
  std::vector<std::string> names;
  for (auto& [total, program] : programs) names.push_back(std::move(program));
  view.program = Joined(names);
  view.sampling = Joined(samplings);
  if (stated) view.stated_half_width = std::sqrt(variance);
  const bool wants_errors = options.errors || HasFilter(options.stacks) || options.format != "table";
  if (files.size() == 1) {
    view.profile = files[0]->profile;
    view.plumbing = files[0]->plumbing;
    if (wants_errors) view.variances = VariancesOf(first, LooksAtAges(options.stacks));
    return view;
  }
  ProfileMerger merger;
  for (const ProfileFile* file : files) {
    const auto variances =
        wants_errors ? VariancesOf(*file->profile, LooksAtAges(options.stacks)) : std::vector<double>();
    if (const auto added = merger.Add(*file->profile, variances); !added.ok()) {
      return absl::InvalidArgumentError(fmt::format("{}: {}.", file->path, std::string(added.message())));
    }
  }
  Merged merged = merger.Take();
  if (view.kind == "mutex" || view.kind == "block") {
    view.contends.emplace();
    for (const ProfileFile* file : files) {
      const auto plumbing = PlumbingOf(*file, options.stacks.plumbing);
      if (!plumbing.ok()) return plumbing.status();
      view.contends->merge(std::set<std::string>(IdleWaits(*file->profile, plumbing->get()).contends()));
    }
  }
  for (const ProfileFile* file : files) ObjectNames(*file->profile).AddTo(merged.profile.get());
  std::vector<const Profile*> profiles;
  for (const ProfileFile* file : files) profiles.push_back(file->profile.get());
  AddAgesKnown(profiles, merged.profile.get());
  view.profile = std::move(merged.profile);
  view.variances = std::move(merged.variances);
  return view;
}

namespace {

absl::StatusOr<std::vector<std::string>> FilesOf(const ViewOptions& options) {
  if (options.peak) return PeakFilesFor(options.files);
  if (options.kind == kLifetimesKind) return LifetimesFilesFor(options.files);
  if (options.kind == kResidentKind) return ResidentFilesFor(options.files);
  return options.files;
}

// Names the processes in a folder that have no peak profile. The view omits them, however high their peaks were.
void SayMissingPeaks(const ViewOptions& options, const std::vector<const ProfileFile*>& files, std::ostream& err) {
  std::vector<std::string> folders;
  std::copy_if(options.files.begin(), options.files.end(), std::back_inserter(folders), NamesSeveralFiles);
  if (folders.empty()) return;
  const auto heaps = ReadProfileSet(folders, {.kind = "heap"});
  if (!heaps.ok()) return;
  std::set<std::string> shown;
  for (const ProfileFile* file : files) shown.insert(file->process);
  std::vector<std::pair<int64_t, std::string>> missing;
  for (const ProfileGroup& group : heaps->groups) {
    const ProfileFile* heap = group.NewestCumulative();
    if (heap == nullptr || heap->profile == nullptr || group.process.empty() || shown.contains(group.process)) continue;
    if (const auto peak = PeakBytesOf(*heap->profile)) missing.emplace_back(*peak, heap->program);
  }
  if (missing.empty()) return;
  std::sort(missing.rbegin(), missing.rend());
  std::vector<std::string> named;
  for (const auto& [peak, program] : missing) named.push_back(fmt::format("{} had {}", program, FormatSize(peak)));
  SayTo(
      err,
      fmt::format(
          "{} process{} without a peak profile {} skipped (too short, or --peak no): {}. Their heap profiles may show these stacks: holdfast top --kind heap FILE.",
          missing.size(), missing.size() == 1 ? "" : "es", missing.size() == 1 ? "is" : "are", Joined(named)));
}

// Whether the files were found in a folder, so that the user did not choose one kind.
bool IsFound(const ProfileGroup& group) {
  return std::all_of(group.files.begin(), group.files.end(), [](const ProfileFile& file) { return file.from_folder; });
}

std::optional<LockTrouble> LockTroubleIn(const ProfileSet& blocks, const ViewOptions& options) {
  std::optional<LockTrouble> sum;
  for (const ProfileGroup& group : blocks.groups) {
    const ProfileFile* newest = group.NewestCumulative();
    if (newest == nullptr || newest->profile == nullptr) continue;
    const auto plumbing = PlumbingOf(*newest, options.stacks.plumbing);
    if (!plumbing.ok()) continue;
    const auto trouble = LockTroubleOf(*newest->profile, plumbing->get());
    if (!trouble.has_value()) continue;
    if (sum.has_value()) {
      sum->Add(*trouble);
    } else {
      sum = trouble;
    }
  }
  return sum;
}

}  // namespace

absl::StatusOr<View> OpenView(const ViewOptions& asked, std::ostream& err) {
  ViewOptions options = asked;
  // Only heap profiles have ages among the kinds that show what is in use.
  if (options.stacks.by == "age" && !options.peak && (options.kind.empty() || options.kind == "heap")) {
    options.kind = kLifetimesKind;
    if (options.metric.empty() || options.metric == "inuse_space") options.metric = "alive_space";
  }
  // Only one kind has these metrics.
  if ((options.metric == "resident_space" || options.metric == "swapped_space") && !options.peak &&
      options.kind.empty())
    options.kind = kResidentKind;
  if (const auto unit = CheckUnit(options.unit); !unit.ok()) return unit;
  Progress progress("reading profile");
  const auto given = FilesOf(options);
  if (!given.ok()) return given.status();
  auto set = ReadProfileSet(*given, {.kind = options.peak ? "peak" : options.kind,
                                     .progress = [&](size_t done, size_t all) { progress.Show(done, all); }});
  progress.Clear();
  if (!set.ok()) return set.status();
  ThreadNames thread_names;
  if (options.stacks.by == "thread") {
    for (const ProfileGroup& group : set->groups) {
      for (const ProfileFile& file : group.files) {
        if (file.profile != nullptr) AddThreadNames(*file.profile, &thread_names);
      }
    }
  }
  const bool asks_nothing = options.kind.empty() && options.metric.empty() && !options.peak;
  ProfileSet blocks, peaks;
  if (asks_nothing) {
    for (const ProfileGroup& group : set->groups) {
      if (group.kind == "block" && IsFound(group)) blocks.groups.push_back(group);
      if (group.kind == "peak" && IsFound(group)) peaks.groups.push_back(group);
    }
  }
  auto files = FilesThatCount(&*set, options, err);
  if (!files.ok()) return files.status();
  Opened opened;
  if (asks_nothing && options.opens_peak && !peaks.groups.empty() && files->front()->kind == "heap") {
    std::vector<const ProfileFile*> heaps = *files;
    if (!options.ended) TakeEnded(&heaps);
    std::set<std::string> with_peak;
    for (const ProfileGroup& group : peaks.groups) with_peak.insert(group.process);
    opened = OpeningOfFiles(heaps, DefaultMetric(*heaps[0]->profile), with_peak, options);
    if (opened.opening == Opening::kPeak) {
      options.peak = true;
      files = FilesThatCount(&peaks, options, err);
      if (!files.ok()) return files.status();
    }
  }
  if (options.peak) SayMissingPeaks(options, *files, err);
  const std::vector<const ProfileFile*> ended = EndedOf(&*files, options);
  auto view = ViewOf(*files, options);
  if (!view.ok()) return view;
  if (opened.opening == Opening::kPeak) {
    view->opening = opened.opening;
    view->left = opened.left;
  }
  if (!IsWaitKind(view->kind)) view->lock_trouble = LockTroubleIn(blocks, options);
  view->thread_names = std::move(thread_names);
  view->SetEnded(ended);
  return view;
}

absl::StatusOr<FilteredStacks> StacksOf(const View& view, const ViewOptions& options, std::vector<size_t> columns) {
  if (columns.empty()) columns = {view.metric};
  auto stacks = FilteredStacks::Build(view.profile, std::move(columns), options.stacks, view.variances);
  if (!stacks.ok()) return stacks.status();
  if (stacks->size() == 0 && HasFilter(options.stacks)) {
    return NothingLeft();
  }
  return stacks;
}

absl::StatusOr<std::shared_ptr<Plumbing>> PlumbingOf(const View& view, const ViewOptions& options) {
  if (view.plumbing != nullptr) return view.plumbing;
  auto made = Plumbing::Make(*view.profile, options.stacks.plumbing);
  if (!made.ok()) return made.status();
  return std::make_shared<Plumbing>(*std::move(made));
}

void AddMissingNames(const View& view, const ViewOptions& options, Plumbing* plumbing, TextTable* table) {
  if (!view.unfinished.empty()) {
    const bool no_names = view.unfinished.front().empty();
    table->header.emplace_back(
        fmt::format("names    {} not ready when {} written: try again in a moment, or run holdfast symbolize {}",
                    no_names ? "the names of functions were"
                             : fmt::format("inlined functions and lines of {} were", Joined(view.unfinished)),
                    view.files == 1 ? "this was" : "some files were", fmt::join(options.files, " ")),
        HeaderLine::kWarning);
  }
  const std::string how = HowToName(UnnamedCodeOf(*view.profile, view.metric, plumbing), options.files);
  if (!how.empty()) table->header.emplace_back("names    " + how, HeaderLine::kWarning);
}

void AddHeader(const View& view, const FilteredStacks& stacks, const ViewOptions& options, TextTable* table) {
  const StackOptions& o = options.stacks;
  const bool filtered = HasFilter(o);
  const int64_t whole = stacks.Whole(0), selected = stacks.Selected(0);
  if (view.lock_trouble.has_value())
    table->header.push_back(fmt::format("waits    {}: see holdfast locks {}",
                                        Printable(LockTroubleText(*view.lock_trouble)),
                                        Printable(fmt::format("{}", fmt::join(options.files, " ")))));
  table->header.push_back(fmt::format("program  {}", view.program));
  table->header.push_back(
      fmt::format("metric   {}{}", view.metric_name, view.kind.empty() ? "" : fmt::format(" ({})", view.kind)));
  if (view.opening != Opening::kInUse && view.kind == "threads")
    table->header.push_back(
        "note     no thread is alive any more, so this shows all threads that were created (created)");
  else if (view.opening != Opening::kInUse)
    table->header.push_back(fmt::format(
        "note     {} ({})", OpeningText(view.opening, view.left == 0 ? "" : view.Value(view.left)), view.metric_name));
  if (!view.freed_at_exit.empty()) table->header.push_back("note     " + FreedAtExitText(view.freed_at_exit));
  const auto with_error = [&](int64_t value, std::optional<double> half_width) {
    if (!half_width) return view.Value(value);
    return fmt::format("{} ± {} (95 %)", view.Value(value),
                       view.Value(static_cast<int64_t>(std::min(9e18, std::round(*half_width)))));
  };
  table->header.push_back("total    " + with_error(whole, view.stated_half_width));
  if (view.kind == "peak" && view.peak_bytes.has_value() && view.unit_name == "bytes" && whole != *view.peak_bytes) {
    // No error: the total of another moment's state only says how close that moment is to the peak.
    table->header.back() =
        fmt::format("total    {}, {} of the peak",
                    view.stated_half_width > 0 ? with_error(whole, view.stated_half_width) : view.Value(whole),
                    FormatPercent(whole, *view.peak_bytes));
  }
  if (view.ended > 0) table->header.push_back("ended    " + view.EndedText());
  for (const std::string& peak : view.peaks) table->header.push_back("peak     " + peak);
  if (view.resident_files > 0 && view.unit_name == "bytes") {
    table->header.push_back(fmt::format("resident {}, as the kernel counts it for {}", view.Value(view.resident_bytes),
                                        view.files == 1 ? "the process"
                                        : view.files == view.resident_files
                                            ? fmt::format("{} processes", view.files)
                                            : fmt::format("{} of {} processes", view.resident_files, view.files)));
  }
  for (const std::string& older : view.older_blocks)
    table->header.push_back(fmt::format("older    {}: {}", kOlderBlocks, older));
  if (view.files_with_pages > 0 && view.unit_name == "bytes") {
    const bool knows_huge = view.files_with_huge == view.files_with_pages;
    table->header.push_back(
        fmt::format("pages    {} swapped, {}", view.Value(view.swapped_bytes),
                    knows_huge ? view.Value(view.huge_bytes) + " on huge pages" : "on huge pages unknown (Linux 6.7)"));
  }
  std::optional<double> selected_error;
  if (stacks.has_variances()) selected_error = HalfWidthOf(stacks.SelectedVariance(0));
  if (filtered) {
    table->header.push_back(
        fmt::format("selected {}, {}", with_error(selected, selected_error), FormatPercent(selected, whole)));
    const std::pair<const char*, const std::string*> filters[] = {
        {"focus", &o.focus},         {"ignore", &o.ignore},      {"hide", &o.hide},           {"show", &o.show},
        {"show-from", &o.show_from}, {"tagfocus", &o.tag_focus}, {"tagignore", &o.tag_ignore}};
    for (const auto& [name, value] : filters) {
      if (!value->empty()) table->header.push_back(fmt::format("filter   --{} {}", name, *value));
    }
  }
  if (o.folds()) {
    table->header.push_back(fmt::format("filter   --fold {}", o.fold_plumbing ? "plumbing" : "system"));
  }
  if (o.fold_recursion) table->header.push_back("filter   --fold recursion");
  if (!view.sampling.empty()) table->header.push_back(fmt::format("sampled  {}", view.sampling));
  for (const std::string& loss : view.losses)
    table->header.emplace_back(fmt::format("lost     {}", loss), HeaderLine::kWarning);
  table->members.push_back({"program", JsonString(view.program)});
  table->members.push_back({"kind", JsonString(view.kind)});
  table->members.push_back({"metric", JsonString(view.metric_name)});
  table->members.push_back({"unit", JsonString(view.unit_name)});
  table->members.push_back({"total", fmt::format("{}", whole)});
  table->members.push_back({"all_freed", view.opening != Opening::kInUse ? "true" : "false"});
  table->members.push_back(
      {"lock_trouble", view.lock_trouble ? fmt::format("{}", view.lock_trouble->delay_ns) : "null"});
  table->members.push_back({"freed_at_exit", fmt::format("{}", view.freed_at_exit.size())});
  table->members.push_back({"ended_processes", fmt::format("{}", view.ended)});
  table->members.push_back({"ended_total", fmt::format("{}", view.ended_value)});
  table->members.push_back(
      {"total_error", view.stated_half_width ? JsonNumber(std::round(*view.stated_half_width)) : "null"});
  const bool has_height = view.peak_bytes.has_value();
  table->members.push_back({"height", has_height ? fmt::format("{}", *view.peak_bytes) : "null"});
  table->members.push_back({"height_missing", has_height ? fmt::format("{}", view.peak_missing_bytes) : "null"});
  table->members.push_back({"resident", view.resident_files > 0 ? fmt::format("{}", view.resident_bytes) : "null"});
  table->members.push_back({"selected", fmt::format("{}", selected)});
  table->members.push_back({"selected_error", selected_error ? JsonNumber(std::round(*selected_error)) : "null"});
}

}  // namespace holdfast
