#include "report/show/leaks.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <thread>
#include <tuple>

#include "absl/hash/hash.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/growth/all_memory.h"
#include "report/analysis/growth/distinct_stacks.h"
#include "report/analysis/growth/growth_answer.h"
#include "report/analysis/growth/growth_rate.h"
#include "report/analysis/growth/rate_unit.h"
#include "report/analysis/how_to_name.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/short_name.h"
#include "report/analysis/variance.h"
#include "report/base/printable.h"
#include "report/base/progress.h"
#include "report/base/say.h"
#include "report/base/value_units.h"
#include "report/profile/typed_records.h"
#include "report/show/check_formats.h"
#include "report/show/node_cells.h"
#include "report/show/unreachable_view.h"

namespace holdfast {
namespace {

constexpr size_t kFindingCell = 12, kStackCell = 13;
constexpr size_t kHalfCell = 7;
// `leaks PID` also searches for unreachable blocks if the estimate is below both.
constexpr double kMaxSearchSeconds = 5;  // of CPU
constexpr uint64_t kMaxSearchBytes = 256 << 20;
constexpr std::string_view kGrows = "grows", kUnreachable = "unreachable";
constexpr int kCannotTell = 4;  // exit status
constexpr size_t kMinFamily = 3;
constexpr auto kLook = std::chrono::milliseconds(500);

std::string SignedSize(double bytes) {
  const double bounded = std::clamp(std::round(bytes), -9e18, 9e18);
  return (bounded > 0 ? "+" : "") + FormatSize(static_cast<int64_t>(bounded));
}

// The result of a search for unreachable blocks of a running process.
struct PointerSearch {
  std::optional<UnreachableReport> report;  // nothing: not searched
  std::string text;                         // the answer, or why not
};

PointerSearch SearchPointers(pid_t pid, const Suppressions& suppressions) {
  absl::StatusOr<std::unique_ptr<ObservedProcess>> process = ObservedProcess::Open(pid, {});
  if (!process.ok()) return {{}, fmt::format("not searched: {}", std::string(process.status().message()))};
  const ScanEstimate estimate = EstimateScan(process->get());
  if (estimate.cpu_seconds >= kMaxSearchSeconds || estimate.bytes >= kMaxSearchBytes) {
    return {{},
            fmt::format("not searched, because that takes about {} of CPU and {}: holdfast leaks --unreachable {}",
                        FormatRoughTimeNs(static_cast<int64_t>(estimate.cpu_seconds * 1e9)),
                        FormatSize(static_cast<int64_t>(estimate.bytes)), pid)};
  }
  absl::StatusOr<UnreachableReport> report = FindUnreachableOf(process->get(), suppressions, {});
  if (!report.ok()) return {{}, fmt::format("not searched: {}", std::string(report.status().message()))};
  std::string text = report->Sentence();
  if (report->StopDecides()) text += fmt::format("; uncertain: holdfast leaks --unreachable --stop {} decides", pid);
  if (report->KnowsLittle()) {
    text += fmt::format("; {} may hold blocks of an allocator that is not understood",
                        FormatSize(static_cast<int64_t>(report->found.unknown_bytes)));
  }
  return {*std::move(report), std::move(text)};
}

class Finder {
 public:
  explicit Finder(const LeaksOptions& options) : options_(options) {}

  absl::Status Prepare() {
    for (const std::string& file : options_.suppressions) {
      if (const auto read = suppressions_.AddFile(file); !read.ok()) return read;
    }
    if (!options_.kind.empty() && options_.kind != "heap" && options_.kind != "map" && options_.kind != "threads")
      return absl::InvalidArgumentError(
          fmt::format("--kind {}: no such kind. Use heap, map or threads.", options_.kind));
    if (options_.limit.empty()) return absl::OkStatus();
    const auto limit = ParseByteSize(options_.limit);
    if (!limit.ok()) return absl::InvalidArgumentError("--limit " + std::string(limit.status().message()) + ".");
    limit_ = static_cast<double>(*limit);
    return absl::OkStatus();
  }

  // Reads new files. Drops each profile after reading it: a hundred snapshots need no more memory than their series.
  absl::Status Read(std::ostream& err) {
    Progress progress("reading snapshot");
    const bool only_threads = options_.kind == "threads";
    const auto wanted = [&](std::string_view kind) { return options_.kind.empty() || options_.kind == kind; };
    absl::StatusOr<std::vector<FoundFile>> found = std::vector<FoundFile>();
    absl::Status none;
    std::set<std::string> named;
    for (const char* kind : {"heap", "map", "threads"}) {
      if (!wanted(kind)) continue;
      const auto files = FindProfiles(options_.view.files, kind);
      if (none.ok() && !files.ok()) none = files.status();
      if (!files.ok()) continue;
      for (const FoundFile& file : *files) {
        if (named.insert(file.path).second) found->push_back(file);
      }
    }
    if (found->empty()) return none;
    if (auto ages = ReadAges(); !ages.ok()) return ages;
    size_t done = 0;
    for (const FoundFile& file : *found) {
      progress.Show(done++, found->size());
      if (!seen_.insert(file.path).second) continue;
      auto profile = ReadProfileToView(file.path);
      if (!profile.ok()) {
        if (!file.from_folder) return profile.status();
        if (access(file.path.c_str(), F_OK) == 0) {
          progress.Clear();
          SayTo(err, std::string(profile.status().message()));
        }
        continue;
      }
      ProfileFile described = DescribeFile(file.path, *profile);
      const bool threads = described.kind == "threads", map = described.kind == "map";
      if (file.from_folder && described.kind_stated && described.kind != "heap" && !threads && !map) continue;
      described.profile = std::make_shared<Profile>(*std::move(profile));
      if ((threads && !wanted("threads")) || (map && !wanted("map")) ||
          (!threads && !map && (only_threads || options_.kind == "map"))) {
        if (file.from_folder) continue;
        return absl::InvalidArgumentError(
            fmt::format("{}: its kind is {}, not {}. Leave out --kind.", file.path, described.kind, options_.kind));
      }
      is_chosen_ = is_chosen_ && file.from_folder;
      program_of_.try_emplace(described.process, FamilyOf(described));
      if (threads) {
        const auto [series, added] =
            threads_.try_emplace(OfKind(described.process, "threads"), described.program,
                                 ProcessSeries(options_.view.stacks, options_.depth, &suppressions_));
        if (const auto read = series->second.second.Add(described); !read.ok()) return read;
        continue;
      }
      const OfKind key(described.process, described.kind_stated ? described.kind : "heap");
      family_of_.try_emplace(key, FamilyOf(described));
      if (!described.process.empty()) memory_[described.process].Add(described);
      const auto [series, added] = processes_.try_emplace(
          key, described.program, ProcessSeries(options_.view.stacks, options_.depth, &suppressions_));
      if (const auto read = series->second.second.Add(described); !read.ok()) return read;
      ProfileFile& newest = newest_[key];
      if (newest.profile == nullptr || newest.profile->time_nanos <= described.profile->time_nanos)
        newest = std::move(described);
    }
    // A kind without a file did not change if other kinds have a file of a later snapshot.
    std::map<std::string, int64_t> newest;
    for (const auto* all : {&processes_, &threads_}) {
      for (const auto& [key, named] : *all)
        newest[key.first] = std::max(newest[key.first], named.second.NewestEvidence());
    }
    for (auto* all : {&processes_, &threads_}) {
      for (auto& [key, named] : *all) {
        if (!key.first.empty()) named.second.LastsUntil(newest[key.first]);
      }
    }
    for (const auto& [process, ages] : ages_) {
      if (const auto series = processes_.find({process, "heap"}); series != processes_.end()) {
        for (const ProfileFile& file : ages) {
          if (auto read = series->second.second.AddAges(file); !read.ok()) return read;
        }
      }
    }
    return absl::OkStatus();
  }

  // Reads the newest lifetimes profiles of each process, if there are any beside the given files.
  absl::Status ReadAges() {
    const auto files = LifetimesFilesFor(options_.view.files);
    const auto found = files.ok() ? FindProfiles(*files, "lifetimes") : files.status();
    if (!found.ok()) return absl::OkStatus();
    for (const FoundFile& file : *found) {
      if (!seen_ages_.insert(file.path).second) continue;
      auto profile = ReadProfileToView(file.path);
      if (!profile.ok()) continue;  // without it the ages are unknown
      ProfileFile described = DescribeFile(file.path, *profile);
      if (described.kind != "lifetimes" || !described.cumulative()) continue;
      described.profile = std::make_shared<Profile>(*std::move(profile));
      // Keep two: the newest may describe what the exit handlers left.
      std::vector<ProfileFile>& newest = ages_[described.process];
      newest.push_back(std::move(described));
      std::ranges::sort(newest, {}, &ProfileFile::steady_nanos);
      if (newest.size() > 2) newest.erase(newest.begin());
    }
    return absl::OkStatus();
  }

  bool empty() const { return processes_.empty() && threads_.empty(); }
  const Suppressions& suppressions() const { return suppressions_; }

  std::vector<ProgramGrowth> Growths() const {
    const Judged judged = Choose();
    std::vector<ProgramGrowth> growths;
    for (const Shown& of : ShownOf(judged)) {
      growths.push_back({.program = of.one->program,
                         .kind = of.one->kind,
                         .answer = of.answer,
                         .slope = of.rate.slope,
                         .half_width = of.rate.half_width,
                         .hours = of.one->series->Hours()});
    }
    return growths;
  }

  // Returns why the newest profiles cannot be judged, or "".
  std::string WhyIncomplete() const {
    for (const auto& [key, file] : newest_) {
      const auto& allocator = file.profile->records().allocator;
      if (allocator.has_value() && !allocator->incomplete.empty()) return allocator->incomplete;
    }
    return "";
  }

  // Prints all answers and returns the worst one. `search`: null for files.
  Grows PrintLeaks(const Style& style, const PointerSearch* search, std::ostream& out) const {
    TextTable table;
    const RateUnit rate = RateUnitFor(ShortestHours());
    table.columns = {{"kind", ""},
                     {"slope", fmt::format("bytes/{}", rate.symbol), Column::kRight, 8},
                     {"slope_error", "±", Column::kRight, 0, 1, kRoomy},
                     {"object_slope", fmt::format("objects/{}", rate.symbol), Column::kRight, 0, 1, kWide},
                     {"object_slope_error", ""},
                     {"in_use", "in use"},
                     {"objects_in_use", "objects", Column::kRight, 0, 1, kWide},
                     {"age_half_ns", "half", Column::kRight, 0, 1, kRoomy},
                     {"age_oldest_ns", "oldest", Column::kRight, 0, 1, kRoomy},
                     {"class", "class", Column::kLeft, 9, 2, options_.all ? 0 : kWide},
                     {"program", Programs() > 1 ? "program" : "", Column::kLeft, 0, 2},
                     {"process", ""},
                     {"", search != nullptr ? "finding" : "", Column::kLeft, 0, 2},
                     {"", "function ← callers", Column::kLeft, 0, 2, 0, false, true},
                     {"stack", ""},
                     {"finding", ""}};
    std::vector<std::vector<std::string>> stacks;  // of the rows
    size_t leaks = 0, suppressed = 0, rows = 0, fewer = 0;
    double leak_slope = 0;
    Grows worst = Grows::kNo;
    bool ages_known = false, holds_shown = false, freed_shown = false;
    const Judged judged = Choose();
    fewer = judged.left_out;
    std::vector<Shown> shown = ShownOf(judged);
    std::set<std::string> growing_threads;  // processes
    for (const auto& [key, named] : threads_) {
      if (Counts(named.second) && IsLeak(named.second.Total().growth_class)) growing_threads.insert(key.first);
    }
    const std::string others = LeaveOutOthers(&shown, growing_threads);
    std::set<std::string> chosen, with_memory;
    for (const Shown& of : shown) chosen.insert(program_of_.at(of.one->key.first));
    for (const Shown& of : shown) {
      const auto& [key, program, kind, judged_series, is_family] = *of.one;
      const ProcessSeries& series = *judged_series;
      const Growth total = series.Total();
      const size_t files = series.evidence(), moments = series.course_points();
      std::string seen = fmt::format("{} snapshot{}", files, files == 1 ? "" : "s");
      if (series.is_by_births()) {
        seen += " and the ages of live blocks,";
      } else if (series.is_freed_at_end()) {
        const std::string before = files == 0 ? "" : seen + " and ";
        seen = fmt::format("{}{} moments before the program freed its memory at the end,", before, moments);
      } else if (moments > 0) {
        seen += fmt::format(" and {} earlier moments,", moments);
      }
      table.header.push_back(fmt::format("program  {}{}: {} over {}", program,
                                         kind == "heap" ? "" : fmt::format(", {} profiles", kind), seen,
                                         HoursText(series.Hours())));
      // With births as the course, only single stacks have one.
      const std::string course =
          fmt::format(", {} ± {} {} ({})", SignedSize(total.slope / rate.an_hour),
                      FormatSize(static_cast<int64_t>(std::min(9e18, total.half_width / rate.an_hour))), rate.words,
                      GrowthClassName(total.growth_class));
      table.header.push_back(
          fmt::format("in use   {}{}", FormatSize(series.TotalNow()), series.is_by_births() ? "" : course));
      if (kind == kResidentKind)
        table.header.push_back("note     resident profiles: shows all memory in use, resident or not (inuse_space)");
      const std::vector<ProcessSeries::Entry>& entries = of.entries;
      const GrowthAnswer& answer = of.answer;
      table.header.push_back("answer   " + TextOf(answer, series.Hours()));
      if (!is_family && with_memory.insert(key.first).second) {
        if (const auto memory = MemoryOf(key.first); memory.has_value()) {
          for (const std::string& line : TextsOf(*memory)) table.header.push_back("memory   " + line);
          if (const std::string text = UnexplainedText(*memory); !text.empty()) {
            table.header.push_back("answer   " + text);
            worst = std::max(worst, memory->grows);
          }
        }
      }
      // For a run that was too short to judge growth, but has exact data: show what it held at the end.
      const bool at_end = series.exact() && series.evidence() < kMinSnapshots;
      const bool is_freed = series.is_freed_at_end();
      holds_shown = holds_shown || (at_end && !is_freed);
      freed_shown = freed_shown || (at_end && is_freed);
      // Missing names of another kind matter only if a stack of that kind grows.
      const bool has_leak =
          std::ranges::any_of(entries, [](const auto& entry) { return IsLeak(entry.bytes.growth_class); });
      if (kind == "heap" || has_leak) {
        if (const std::string how = HowToNameIn(key); !how.empty()) table.header.push_back("names    " + how);
      }
      worst = std::max(worst, answer.grows);
      double process_leaks = 0;
      for (const ProcessSeries::Entry& entry : entries) {
        const bool grows = IsLeak(entry.bytes.growth_class);
        if (grows && entry.suppressed) {
          ++suppressed;
          continue;
        }
        if (grows) {
          ++leaks;
          process_leaks += entry.bytes.slope;
        } else if (!options_.all && !(at_end && entry.bytes_now > 0 && !IsOfStartUp(series.FramesOf(entry)))) {
          continue;
        }
        if (options_.view.node_count != 0 && ++rows > options_.view.node_count) continue;
        const AliveAges ages = series.AgesOf(entry);
        ages_known = ages_known || ages.half_ns() >= 0;
        table.rows.push_back(RowOf(key, program, entry, ages, series.FramesOf(entry), rate, grows));
        stacks.push_back(series.FramesOf(entry));
      }
      leak_slope = std::max(leak_slope, process_leaks);
      if (limit_ > 0) table.header.push_back("limit    " + LimitText(series, process_leaks, total));
    }
    for (const auto& [key, named] : threads_) {
      const auto& [program, series] = named;
      if (!Counts(series) || !(others.empty() || chosen.contains(program_of_.at(key.first)))) continue;
      size_t growing = 0;
      for (const ProcessSeries::Entry& entry : series.Entries()) {
        if (!IsLeak(entry.bytes.growth_class)) continue;
        if (entry.suppressed) {
          ++suppressed;
          continue;
        }
        ++growing;
        if (options_.view.node_count != 0 && ++rows > options_.view.node_count) continue;
        table.rows.push_back(ThreadRowOf(key, program, entry, series.FramesOf(entry), rate));
        stacks.push_back(series.FramesOf(entry));
      }
      if (growing == 0) {
        if (series.Total().growth_class == GrowthClass::kUndecided && worst == Grows::kNo) worst = Grows::kUndecided;
        continue;
      }
      leaks += growing;
      worst = std::max(worst, Grows::kYes);
      const Growth total = series.Total();
      table.header.push_back(fmt::format("threads  {} of {} alive, {:+.4g} {}: threads are created and never exit",
                                         series.TotalNow(), program, total.slope / rate.an_hour, rate.words));
    }
    const std::vector<std::string> texts =
        DistinctStacks(stacks, options_.shown_frames, options_.view.full_names ? nullptr : ShortName);
    for (size_t i = 0; i < texts.size(); ++i) table.rows[i].cells[kStackCell].shown = texts[i];
    if (search != nullptr) {
      table.header.push_back("pointers " + search->text);
      if (search->report.has_value()) AddUnreachable(*search->report, rows, &suppressed, &table);
    }
    if (!others.empty()) table.header.push_back("others   " + others);
    if (fewer > 0)
      table.header.push_back(fmt::format("skipped  {} process{} with fewer than {} snapshots", fewer,
                                         fewer == 1 ? "" : "es", kMinSnapshots));
    if (suppressed > 0)
      table.header.push_back(fmt::format("skipped  {} leak{} by suppressions", suppressed, suppressed == 1 ? "" : "s"));
    table.header.push_back(
        leaks == 0 ? std::string("leaks    no stack grows ") + (worst == Grows::kUndecided ? "surely" : "all the time")
                   : fmt::format("leaks    {} stack{} grow{} {}", leaks, leaks == 1 ? "" : "s", leaks == 1 ? "s" : "",
                                 worst == Grows::kSteps ? "in steps" : "all the time"));
    if (ages_known) {
      table.header.push_back("ages     half: the median age of the bytes in use; oldest: the age of the oldest block");
    } else {
      table.columns[kHalfCell].title = table.columns[kHalfCell + 1].title = "";
    }
    if (holds_shown)
      table.header.push_back("rows     all memory in use at the end, because the run was exact and short");
    if (freed_shown)
      table.header.push_back(
          "rows     all memory in use before the program freed it at its end, because the run was exact");
    table.members = {{"answer", fmt::format("\"{}\"", GrowsName(worst))},
                     {"leaks", fmt::format("{}", leaks)},
                     {"suppressed", fmt::format("{}", suppressed)}};
    if (search != nullptr) {
      const auto& report = search->report;
      const char* const name = !report.has_value()              ? "not searched"
                               : report->ExitCode() == kFinding ? "yes"
                               : report->ExitCode() == kFine    ? "no"
                                                                : "cannot tell";
      table.members.emplace_back("unreachable", fmt::format("\"{}\"", name));
      if (report.has_value()) table.members.emplace_back("unreachable_bytes", fmt::format("{}", report->bytes));
    }
    if (const std::string& format = options_.view.format; format == "markdown" || format == "junit") {
      const std::vector<Outcome> outcomes = OutcomesOf(table, worst);
      out << (format == "junit" ? CheckJunit(outcomes) : CheckMarkdown(outcomes));
      return worst;
    }
    if (table.rows.empty() && style.format == Format::kTable) table.columns.clear();
    Print(table, style, out);
    return worst;
  }

 private:
  // A process's identity, and heap, map, …: a program has a series for each kind.
  using OfKind = std::pair<std::string, std::string>;

  size_t Programs() const {
    std::set<std::string> all;
    for (const auto& [key, named] : processes_) all.insert(key.first);
    return all.size();
  }

  // Identifies a program of one build, in any number of processes.
  static std::string FamilyOf(const ProfileFile& file) {
    const Profile& profile = *file.profile;
    const std::string name = file.program.substr(0, file.program.find(" (pid "));
    return profile.mappings.empty() ? name : name + "\n" + std::string(profile.strings[profile.mappings[0].build_id]);
  }

  // Allocations of the loader and libstdc++ before main that last as long as the process, such as the emergency pool
  // for exceptions.
  static bool IsOfStartUp(const std::vector<std::string>& frames) {
    constexpr std::string_view kLoader[] = {"_dl_init", "call_init", "_dl_start_user", "_dl_start",
                                            "_dl_relocate_object"};
    return std::ranges::all_of(frames, [&](const std::string& frame) {
      return std::ranges::any_of(kLoader, [&](std::string_view name) { return frame.starts_with(name); }) ||
             frame.starts_with("_GLOBAL__sub_I_") || frame.starts_with("__gnu_cxx::") ||
             frame.find("ld-linux") != std::string::npos;
    });
  }

  // The series to judge: processes, or families of processes if each runs too briefly.
  struct Judged {
    struct One {
      OfKind key;
      std::string program, kind;
      std::shared_ptr<const ProcessSeries> series;
      bool is_family = false;
    };
    std::vector<One> series;
    size_t left_out = 0;
  };
  Judged Choose() const {
    Judged judged;
    std::map<std::string, std::vector<const std::pair<const OfKind, std::pair<std::string, ProcessSeries>>*>> families;
    for (const auto& process : processes_) {
      if (const auto family = family_of_.find(process.first); family != family_of_.end())
        families[family->second + "\n" + process.first.second].push_back(&process);
    }
    std::set<OfKind> of_family;
    for (const auto& [family, members] : families) {
      const auto enough = std::ranges::count_if(
          members, [](const auto* member) { return member->second.second.evidence() >= kMinSnapshots; });
      if (members.size() < kMinFamily || 2 * static_cast<size_t>(enough) > members.size()) continue;
      std::vector<const ProcessSeries*> all;
      for (const auto* member : members) {
        all.push_back(&member->second.second);
        of_family.insert(member->first);
      }
      const std::string name = family.substr(0, family.find('\n'));
      for (const bool together : {true, false}) {
        auto series = std::make_shared<ProcessSeries>(options_.view.stacks, options_.depth, &suppressions_);
        series->AddFamily(all, together);
        judged.series.push_back(
            {members.back()->first,
             fmt::format("{}, {} processes {}", name, members.size(), together ? "together" : "in succession"),
             members.back()->first.second, std::move(series), true});
      }
    }
    for (const auto& process : processes_) {
      const ProcessSeries& series = process.second.second;
      // The others of a family may hide that one grows which lived for long enough.
      if (of_family.contains(process.first) && !LeaksAlone(series)) continue;
      if (Counts(series) && (judged.series.empty() || of_family.empty() || series.evidence() >= kMinSnapshots)) {
        judged.series.push_back({process.first, process.second.first, process.first.second,
                                 std::shared_ptr<const ProcessSeries>(std::shared_ptr<void>(), &series), false});
      } else {
        ++judged.left_out;
      }
    }
    return judged;
  }

  static bool LeaksAlone(const ProcessSeries& series) {
    return series.evidence() >= kMinSnapshots && IsLeak(AnswerOf(series, series.Entries()).grows);
  }

  // One series, judged.
  struct Shown {
    const Judged::One* one;
    std::vector<ProcessSeries::Entry> entries;
    GrowthAnswer answer;
    GrowthRate rate;
  };

  // Programs that grow are first.
  static std::vector<Shown> ShownOf(const Judged& judged) {
    std::vector<Shown> shown;
    for (const Judged::One& one : judged.series) {
      Shown& of = shown.emplace_back(Shown{&one, one.series->Entries(), {}, {}});
      of.answer = AnswerOf(*one.series, of.entries);
      of.rate = RateOf(*one.series, of.entries, of.answer);
    }
    return shown;
  }

  std::optional<MemoryAnswer> MemoryOf(const std::string& process) const {
    const auto memory = memory_.find(process);
    return memory == memory_.end() ? std::nullopt : memory->second.Answer();
  }

  // Keeps one program of a folder, the one that grows most, or holds most if none grows: its growing processes, at most
  // kMaxProcesses, or its largest process. Describes the others in words; returns "" if there are none.
  std::string LeaveOutOthers(std::vector<Shown>* shown, const std::set<std::string>& growing_threads) const {
    constexpr size_t kMaxProcesses = 3, kMaxNamed = 4;
    if (options_.all || !is_chosen_ || shown->empty()) return "";
    struct Rank {
      Grows grows = Grows::kNo;
      bool leaks = false;
      double slope = 0;
      int64_t in_use = 0;
      auto Key() const { return std::tuple(leaks, slope, in_use); }
      bool operator<(const Rank& other) const { return Key() < other.Key(); }
    };
    std::map<std::string, Rank> processes, programs;  // by identity; by name and build
    std::set<std::string> families;                   // programs that are judged as a whole
    for (const Shown& of : *shown) {
      const std::string& process = of.one->key.first;
      const std::string& program = program_of_.at(process);
      if (of.one->is_family) families.insert(program);
      Grows grows = of.answer.grows;
      if (growing_threads.contains(process)) grows = Grows::kYes;
      if (const auto memory = MemoryOf(process); memory.has_value() && memory->Unexplained() != nullptr)
        grows = std::max(grows, memory->grows);
      for (Rank* rank : {&processes[process], &programs[program]}) {
        rank->grows = std::max(rank->grows, grows);
        rank->leaks = rank->leaks || IsLeak(grows);
        rank->slope = std::max(rank->slope, of.rate.slope);
        if (of.one->kind == "heap" || of.one->kind == "map")
          rank->in_use = std::max(rank->in_use, of.one->series->TotalNow());
      }
    }
    const auto by_rank = [](const auto& a, const auto& b) { return a.second < b.second; };
    const std::string program = std::ranges::max_element(programs, by_rank)->first;
    std::vector<std::pair<std::string, Rank>> own;
    for (const auto& [process, rank] : processes) {
      if (program_of_.at(process) == program) own.emplace_back(process, rank);
    }
    std::ranges::stable_sort(own, [](const auto& a, const auto& b) { return b.second < a.second; });
    std::set<std::string> kept;
    if (families.contains(program)) {
      for (const auto& [process, rank] : own) kept.insert(process);
    }
    for (const auto& [process, rank] : own) {
      if (kept.empty() || (rank.leaks && kept.size() < kMaxProcesses)) kept.insert(process);
    }
    std::vector<std::string> left_out;
    if (own.size() > kept.size()) left_out.push_back(fmt::format("{} more of this program", own.size() - kept.size()));
    size_t unnamed = 0;
    for (const auto& [other, rank] : programs) {
      if (other == program) continue;
      if (left_out.size() >= kMaxNamed) {
        ++unnamed;
      } else {
        left_out.push_back(fmt::format("{} ({})", Printable(other.substr(0, other.find('\n'))), GrowsName(rank.grows)));
      }
    }
    if (left_out.empty()) return "";
    if (unnamed > 0) left_out.push_back(fmt::format("{} more", unnamed));
    std::erase_if(*shown, [&](const Shown& of) { return !kept.contains(of.one->key.first); });
    return fmt::format("{} (of {} process{} this {}; --all shows each)", fmt::join(left_out, ", "), processes.size(),
                       processes.size() == 1 ? "" : "es",
                       processes.at(*kept.begin()).leaks ? "grows most" : "holds most");
  }

  // Returns whether a series is judged. Skips short processes if there are longer ones.
  bool Counts(const ProcessSeries& series) const {
    const auto has_enough = [](const auto& process) { return process.second.second.evidence() >= kMinSnapshots; };
    const bool any = std::ranges::any_of(processes_, has_enough) || std::ranges::any_of(threads_, has_enough);
    return !any || series.evidence() >= kMinSnapshots;
  }

  // The unit of time must not exceed the observed time of any printed process.
  double ShortestHours() const {
    double hours = std::numeric_limits<double>::infinity();
    for (const auto* all : {&processes_, &threads_}) {
      for (const auto& [key, named] : *all) {
        if (Counts(named.second)) hours = std::min(hours, named.second.Hours());
      }
    }
    return hours;
  }

  // Returns how to get the names missing in a process's newest snapshot.
  std::string HowToNameIn(const OfKind& process) const {
    const ProfileFile& newest = newest_.at(process);
    const auto plumbing = PlumbingOf(newest, options_.view.stacks.plumbing);
    const auto in_use = FindMetric(*newest.profile, "inuse_space");
    if (!plumbing.ok() || !in_use.ok()) return "";
    return HowToName(UnnamedCodeOf(*newest.profile, *in_use, plumbing->get()), options_.view.files);
  }

  std::string LimitText(const ProcessSeries& series, double leak_slope, const Growth& total) const {
    const auto now = static_cast<double>(series.TotalNow());
    if (now >= limit_)
      return fmt::format("{} has already been reached",
                         FormatLike(static_cast<int64_t>(limit_), "bytes", options_.limit));
    // Leaks will continue; other growth may not.
    const double slope = leak_slope > 0 ? leak_slope : IsLeak(total.growth_class) ? total.slope : 0;
    if (slope <= 0)
      return fmt::format("{} will not be reached: nothing grows steadily",
                         FormatLike(static_cast<int64_t>(limit_), "bytes", options_.limit));
    return fmt::format("{} in use will be reached in {}",
                       FormatLike(static_cast<int64_t>(limit_), "bytes", options_.limit),
                       HoursText((limit_ - now) / slope));
  }

  TableRow RowOf(const OfKind& key, const std::string& program, const ProcessSeries::Entry& entry,
                 const AliveAges& ages, const std::vector<std::string>& frames, const RateUnit& rate,
                 bool grows) const {
    const double error = std::min(9e18, entry.bytes.half_width / rate.an_hour);
    return {{Cell::Text(key.second), Cell::Real(SignedSize(entry.bytes.slope / rate.an_hour), entry.bytes.slope),
             Cell::Real("±" + FormatSize(static_cast<int64_t>(error)), entry.bytes.half_width),
             Cell::Real(fmt::format("{:.4g}", entry.objects.slope / rate.an_hour), entry.objects.slope),
             Cell::Real("", entry.objects.half_width), Cell::Number(FormatSize(entry.bytes_now), entry.bytes_now),
             Cell::Number(fmt::format("{}", entry.objects_now), entry.objects_now), AgeCell(ages.half_ns()),
             AgeCell(ages.oldest_ns()), Cell::Text(GrowthClassName(entry.bytes.growth_class)), Cell::Text(program),
             Cell::Text(key.first), Cell::Text(std::string_view(grows ? kGrows : "")), Cell::Text(""),
             Cell::Text(fmt::format("{}", fmt::join(frames, ";"))), Cell::Text(std::string_view(grows ? kGrows : ""))},
            grows ? 1.0 : 0.005};
  }

  // Adds a row for each stack with unreachable blocks. `rows`: how many there are so far.
  void AddUnreachable(const UnreachableReport& report, size_t rows, size_t* suppressed, TextTable* table) const {
    const OfKind of = processes_.empty() ? OfKind(threads_.begin()->first.first, "heap") : processes_.begin()->first;
    for (const UnreachableRow& row : report.rows) {
      if (row.is_suppressed) {
        ++*suppressed;
        continue;
      }
      if (!row.is_certain && !options_.all) continue;
      if (options_.view.node_count != 0 && ++rows > options_.view.node_count) continue;
      std::vector<std::string> frames;
      for (const ObservedProcess::Call& call : row.stack) frames.push_back(call.function);
      const std::string finding(row.is_certain ? kUnreachable : "uncertain");
      TableRow added{
          {Cell::Text("heap"), ForPeople(""), ForPeople(""), ForPeople(""), ForPeople(""),
           Cell::Number(FormatSize(row.WholeBytes()), row.WholeBytes()),
           Cell::Number(fmt::format("{}", row.WholeBlocks()), row.WholeBlocks()), AgeCell(-1), AgeCell(-1),
           Cell::Text(""), Cell::Text(report.process), Cell::Text(of.first), Cell::Text(finding), Cell::Text(row.label),
           Cell::Text(fmt::format("{}", fmt::join(frames, ";"))), Cell::Text(finding)},
          1.0};
      table->rows.push_back(std::move(added));
    }
  }

  // One outcome for each finding, or one for a process without findings.
  static std::vector<Outcome> OutcomesOf(const TextTable& table, Grows worst) {
    constexpr size_t kSlopeCell = 1, kInUseCell = 5, kObjectsCell = 6;
    std::vector<Outcome> outcomes;
    for (const TableRow& row : table.rows) {
      const std::string& finding = row.cells[kFindingCell].text;
      if (finding != kGrows && finding != kUnreachable) continue;
      outcomes.push_back(
          {.name = fmt::format("{}: {}", finding, row.cells[kStackCell].shown),
           .value = finding == kGrows
                        ? fmt::format("{} {}", row.cells[kSlopeCell].shown, table.columns[kSlopeCell].title)
                        : fmt::format("{} in {} blocks", row.cells[kInUseCell].shown, row.cells[kObjectsCell].shown),
           .limit = "0",
           .failed = true});
    }
    if (!outcomes.empty()) return outcomes;
    Outcome& whole = outcomes.emplace_back(Outcome{.name = "leaks", .value = "none found", .limit = "0"});
    whole.failed = IsLeak(worst) || worst == Grows::kUndecided;
    for (const std::string& line : table.header) {
      if (line.starts_with("answer ") && whole.failed && whole.why.empty()) whole.why = line.substr(kHeadBytes);
    }
    return outcomes;
  }
  static constexpr size_t kHeadBytes = 9;  // of "answer   "

  static Cell AgeCell(int64_t ns) { return ns < 0 ? ForPeople("") : Cell::Number(OlderText(ns), ns); }

  // Empty in CSV, null in JSON: programs add up this column, so it must have one unit.
  static Cell ForPeople(std::string shown) {
    return Cell::Real(std::move(shown), std::numeric_limits<double>::quiet_NaN());
  }

  // Shows threads in the column of bytes, with the word "threads", for people; programs find their number in the column
  // of objects.
  static TableRow ThreadRowOf(const OfKind& key, const std::string& program, const ProcessSeries::Entry& entry,
                              const std::vector<std::string>& frames, const RateUnit& rate) {
    const double slope = entry.objects.slope / rate.an_hour, error = entry.objects.half_width / rate.an_hour;
    return {
        {Cell::Text(key.second), ForPeople(fmt::format("{:+.4g} threads", slope)),
         ForPeople(fmt::format("±{:.4g}", error)), Cell::Real(fmt::format("{:.4g}", slope), entry.objects.slope),
         Cell::Real("", entry.objects.half_width), ForPeople(fmt::format("{} threads", entry.objects_now)),
         Cell::Number(fmt::format("{}", entry.objects_now), entry.objects_now), AgeCell(-1), AgeCell(-1),
         Cell::Text(GrowthClassName(entry.objects.growth_class)), Cell::Text(program), Cell::Text(key.first),
         Cell::Text(kGrows), Cell::Text(""), Cell::Text(fmt::format("{}", fmt::join(frames, ";"))), Cell::Text(kGrows)},
        1.0};
  }

  const LeaksOptions& options_;
  Suppressions suppressions_;
  double limit_ = 0;
  std::set<std::string> seen_, seen_ages_;
  std::map<OfKind, std::pair<std::string, ProcessSeries>> processes_, threads_;  // program, series
  std::map<OfKind, std::string> family_of_;
  std::map<std::string, std::string> program_of_;  // by identity: the program and its build
  std::map<std::string, AllMemory> memory_;        // by identity
  bool is_chosen_ = true;                          // no file was given by name
  std::map<OfKind, ProfileFile> newest_;
  std::map<std::string, std::vector<ProfileFile>> ages_;  // by identity: the newest lifetimes profiles
};

}  // namespace

absl::StatusOr<std::vector<ProgramGrowth>> FindGrowth(const LeaksOptions& options, std::ostream& err) {
  Finder finder(options);
  if (const auto prepared = finder.Prepare(); !prepared.ok()) return prepared;
  if (const auto read = finder.Read(err); !read.ok()) return read;
  return finder.Growths();
}

// Returns the process to search for unreachable blocks: if one process is named, and nothing but its memory is asked for.
static std::optional<pid_t> ProcessToSearch(const LeaksOptions& options) {
  if (options.view.files.size() != 1 || options.follow || HasFilter(options.view.stacks)) return std::nullopt;
  if (!options.kind.empty() && options.kind != "heap") return std::nullopt;
  return AsProcess(options.view.files[0]);
}

int RunLeaks(const LeaksOptions& options, std::ostream& out, std::ostream& err) {
  ViewOptions view = options.view;
  if (view.format == "markdown" || view.format == "junit") view.format = "table";
  const auto style = StyleOf(view);
  if (!style.ok()) return Failed(style.status(), err);
  Finder finder(options);
  if (const auto prepared = finder.Prepare(); !prepared.ok()) return Failed(prepared, err);
  std::string last;
  while (true) {
    if (const auto read = finder.Read(err); !read.ok() && !(options.follow && absl::IsNotFound(read))) {
      const auto pid = ProcessToSearch(options);
      if (!pid.has_value() || !absl::IsNotFound(read)) return Failed(read, err);
      return Failed(absl::NotFoundError(fmt::format("{} Without profiles: holdfast leaks --unreachable {}.",
                                                    std::string(read.message()), *pid)),
                    err);
    }
    if (const std::string incomplete = finder.WhyIncomplete(); !incomplete.empty() && !options.follow) {
      err << fmt::format("holdfast: cannot tell what grows: {}.\n", Printable(incomplete));
      return kCannotTell;
    }
    if (!finder.empty()) {
      std::ostringstream text;
      std::optional<PointerSearch> search;
      if (const auto pid = ProcessToSearch(options); pid.has_value())
        search = SearchPointers(*pid, finder.suppressions());
      const Grows grows = finder.PrintLeaks(*style, search.has_value() ? &*search : nullptr, text);
      if (text.str() != last) {
        if (options.follow && style->color) out << "\x1b[H\x1b[2J";
        if (options.follow && !style->color && !last.empty()) out << "\n";
        out << text.str() << std::flush;
        last = text.str();
      }
      const bool is_unreachable =
          search.has_value() && search->report.has_value() && search->report->ExitCode() == kFinding;
      if (!options.follow) return IsLeak(grows) || is_unreachable ? 1 : grows == Grows::kUndecided ? kCannotTell : 0;
      if (!out) return 3;  // the reader is gone
    }
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace holdfast
