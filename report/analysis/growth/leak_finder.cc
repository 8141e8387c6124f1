#include "report/analysis/growth/leak_finder.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <string_view>
#include <tuple>

#include "fmt/format.h"
#include "report/analysis/growth/held_until.h"
#include "report/analysis/how_to_name.h"
#include "report/analysis/profiles/function_identity.h"
#include "report/analysis/profiles/metric.h"
#include "report/base/say.h"
#include "report/base/time_budget.h"
#include "report/profile/typed_records.h"

namespace holdfast {
namespace {

constexpr size_t kMinFamily = 3;

// Identifies a program of one build, in any number of processes.
std::string ProgramAndBuildOf(const ProfileFile& file) {
  const Profile& profile = *file.profile;
  const std::string name = file.program.substr(0, file.program.find(" (pid "));
  return profile.mappings.empty() ? name : name + "\n" + std::string(profile.strings[profile.mappings[0].build_id]);
}

// Allocations of the loader and libstdc++ before main that last as long as the process, such as the emergency pool
// for exceptions.
bool IsOfStartUp(const std::vector<std::string>& frames) {
  constexpr std::string_view kLoader[] = {"_dl_init", "call_init", "_dl_start_user", "_dl_start",
                                          "_dl_relocate_object"};
  return std::ranges::all_of(frames, [&](const std::string& frame) {
    return std::ranges::any_of(kLoader, [&](std::string_view name) { return frame.starts_with(name); }) ||
           frame.starts_with("_GLOBAL__sub_I_") || frame.starts_with("__gnu_cxx::") ||
           frame.find("ld-linux") != std::string::npos;
  });
}

bool LeaksAlone(const ProcessSeries& series) {
  return series.evidence() >= kMinSnapshots && IsLeak(AnswerOf(series, series.Entries()).grows);
}

// Says for a run that was too short to judge growth, but has exact data, what it held at the end.
bool ShowsTheEnd(const ProcessSeries& series) {
  return series.exact() && !series.has_older_blocks() && series.evidence() < kMinSnapshots;
}

}  // namespace

absl::Status LeakFinder::Prepare() {
  for (const std::string& file : question_.suppressions) {
    if (const auto read = suppressions_.AddFile(file); !read.ok()) return read;
  }
  if (!question_.kind.empty() && question_.kind != "heap" && question_.kind != "map" && question_.kind != "threads")
    return absl::InvalidArgumentError(
        fmt::format("--kind {}: no such kind. Use heap, map or threads.", question_.kind));
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FoundFile>> LeakFinder::FindFiles() const {
  std::vector<FoundFile> found;
  absl::Status none;
  std::set<std::string> named;
  for (const char* kind : {"heap", "map", "threads"}) {
    if (!IsWanted(kind)) continue;
    const auto files = FindProfiles(question_.files, kind);
    if (none.ok() && !files.ok()) none = files.status();
    if (!files.ok()) continue;
    for (const FoundFile& file : *files) {
      if (named.insert(file.path).second) found.push_back(file);
    }
  }
  if (found.empty() && !none.ok()) return none;
  return found;
}

absl::Status LeakFinder::Read(std::ostream& err) {
  const auto found = FindFiles();
  if (!found.ok() || found->empty()) return found.status();
  Progress progress("reading snapshot");
  if (auto ages = ReadAges(); !ages.ok()) return ages;
  size_t done = 0;
  for (const FoundFile& file : *found) {
    progress.Show(done++, found->size());
    if (!seen_.insert(file.path).second) continue;
    if (const auto added = AddFile(file, &progress, err); !added.ok()) return added;
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
  LookWhatHolds();
  for (const auto& [process, ages] : ages_) {
    if (const auto series = processes_.find({process, "heap"}); series != processes_.end()) {
      for (const ProfileFile& file : ages) {
        if (auto read = series->second.second.AddAges(file); !read.ok()) return read;
      }
    }
  }
  return absl::OkStatus();
}

// Spends at most a twentieth of the time of --follow.
void LeakFinder::LookWhatHolds() {
  constexpr int64_t kRest = 20;
  const int64_t start = NowNs();
  if (start < next_look_ns_) return;
  for (const auto& [key, file] : newest_) {
    if (key.first.empty() || !file.cumulative()) continue;
    auto& all = key.second == "threads" ? threads_ : processes_;
    if (const int64_t held_ns = HeldForNs(*file.profile); held_ns > 0)
      all.at(key).second.HeldUntil(file.steady_nanos + held_ns);
  }
  next_look_ns_ = NowNs() + kRest * (NowNs() - start);
}

absl::Status LeakFinder::AddFile(const FoundFile& file, Progress* progress, std::ostream& err) {
  auto profile = ReadProfileToView(file.path);
  if (!profile.ok()) {
    if (!file.from_folder) return profile.status();
    if (access(file.path.c_str(), F_OK) == 0) {
      progress->Clear();
      SayTo(err, std::string(profile.status().message()));
    }
    return absl::OkStatus();
  }
  ProfileFile described = DescribeFile(file.path, *profile);
  const bool threads = described.kind == "threads", map = described.kind == "map";
  if (file.from_folder && described.kind_stated && described.kind != "heap" && !threads && !map)
    return absl::OkStatus();
  described.profile = std::make_shared<Profile>(*std::move(profile));
  if (!IsWanted(threads || map ? described.kind : "heap")) {
    if (file.from_folder) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}: its kind is {}, not {}. Leave out --kind.", file.path, described.kind, question_.kind));
  }
  is_from_folders_ = is_from_folders_ && file.from_folder;
  program_of_.try_emplace(described.process, ProgramAndBuildOf(described));
  const auto series_in = [&](std::map<OfKind, NamedSeries>* all, const OfKind& key) -> ProcessSeries& {
    return all->try_emplace(key, described.program, ProcessSeries(question_.stacks, question_.depth, &suppressions_))
        .first->second.second;
  };
  const OfKind key(described.process, threads ? "threads" : described.kind_stated ? described.kind : "heap");
  if (!threads) family_of_.try_emplace(key, ProgramAndBuildOf(described));
  if (!threads && !described.process.empty()) memory_[described.process].Add(described);
  if (const auto read = series_in(threads ? &threads_ : &processes_, key).Add(described); !read.ok()) return read;
  ProfileFile& newest = newest_[key];
  if (newest.profile == nullptr || newest.profile->time_nanos <= described.profile->time_nanos)
    newest = std::move(described);
  return absl::OkStatus();
}

// Reads the newest lifetimes profiles of each process, if there are any beside the given files.
absl::Status LeakFinder::ReadAges() {
  const auto files = LifetimesFilesFor(question_.files);
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

std::string LeakFinder::WhyIncomplete() const {
  for (const auto& [key, file] : newest_) {
    const auto& allocator = file.profile->records().allocator;
    if (allocator.has_value() && !allocator->incomplete.empty()) return allocator->incomplete;
  }
  return "";
}

std::vector<ProgramGrowth> LeakFinder::Growths() const {
  const Chosen chosen = Choose();
  std::vector<ProgramGrowth> growths;
  std::set<std::string> with_memory;
  for (const Judged& judged : Judge(chosen)) {
    growths.push_back({.program = judged.one->program,
                       .kind = judged.one->kind,
                       .answer = judged.answer,
                       .slope = judged.rate.slope,
                       .half_width = judged.rate.half_width,
                       .hours = judged.one->series->Hours()});
    const std::string& process = judged.one->key.first;
    if (judged.one->is_family || !with_memory.insert(process).second) continue;
    const std::optional<MemoryAnswer> memory = MemoryOf(process);
    const MemoryAnswer::Part* part = memory.has_value() ? memory->Unexplained() : nullptr;
    if (part == nullptr || memory->hours <= 0) continue;
    growths.back().elsewhere = part->what;
    growths.back().elsewhere_slope = static_cast<double>(part->change()) / memory->hours;
  }
  return growths;
}

LeaksAnswer LeakFinder::Answer() const {
  LeaksAnswer answer;
  const Chosen chosen = Choose();
  std::vector<Judged> all = Judge(chosen);
  answer.others = LeaveOutOthers(&all);
  answer.too_short = chosen.left_out;
  answer.shortest_hours = ShortestHours();
  answer.first_process = (processes_.empty() ? threads_ : processes_).begin()->first.first;
  std::set<std::string> with_heap, programs, with_memory;
  for (const auto& [key, named] : processes_) with_heap.insert(key.first);
  answer.heap_processes = with_heap.size();
  for (const Judged& judged : all) {
    const std::string& process = judged.one->key.first;
    programs.insert(program_of_.at(process));
    LeaksAnswer::Process& added = answer.processes.emplace_back(ProcessOf(judged));
    if (!judged.one->is_family && with_memory.insert(process).second) {
      added.memory = MemoryOf(process);
      if (const auto memory = memory_.find(process); memory != memory_.end())
        added.older_blocks = memory->second.OlderBlocks();
    }
    answer.worst = std::max(answer.worst, judged.answer.grows);
    if (added.memory.has_value() && !UnexplainedText(*added.memory).empty())
      answer.worst = std::max(answer.worst, added.memory->grows);
    AddStacks(judged, &answer);
  }
  for (const auto& [key, named] : threads_) {
    if (Counts(named.second) && (!answer.others.has_value() || programs.contains(program_of_.at(key.first))))
      AddThreads(key, named, &answer);
  }
  return answer;
}

LeaksAnswer::Process LeakFinder::ProcessOf(const Judged& judged) const {
  const ProcessSeries& series = *judged.one->series;
  LeaksAnswer::Process process = {.program = judged.one->program,
                                  .kind = judged.one->kind,
                                  .snapshots = series.evidence(),
                                  .course_points = series.course_points(),
                                  .hours = series.Hours(),
                                  .is_by_births = series.is_by_births(),
                                  .is_freed_at_end = series.is_freed_at_end(),
                                  .in_use = series.TotalNow(),
                                  .total = series.Total(),
                                  .answer = judged.answer};
  // Missing names of another kind matter only if a stack of that kind grows.
  if (judged.one->kind == "heap" ||
      std::ranges::any_of(judged.entries, [](const auto& entry) { return IsLeak(entry.bytes.growth_class); }))
    process.how_to_name = HowToNameIn(judged.one->key);
  for (const ProcessSeries::Entry& entry : judged.entries) {
    if (IsLeak(entry.bytes.growth_class) && !entry.suppressed) process.leak_slope += entry.bytes.slope;
  }
  return process;
}

void LeakFinder::AddStacks(const Judged& judged, LeaksAnswer* answer) const {
  const ProcessSeries& series = *judged.one->series;
  const bool shows_the_end = ShowsTheEnd(series), is_freed = series.is_freed_at_end();
  answer->lists_all = answer->lists_all || (shows_the_end && !is_freed);
  answer->lists_freed = answer->lists_freed || (shows_the_end && is_freed);
  for (const ProcessSeries::Entry& entry : judged.entries) {
    const bool grows = IsLeak(entry.bytes.growth_class);
    if (grows && entry.suppressed) {
      ++answer->suppressed;
      continue;
    }
    if (grows) {
      ++answer->leaks;
    } else if (!question_.all && !(shows_the_end && entry.bytes_now > 0 && !IsOfStartUp(series.FramesOf(entry)))) {
      continue;
    }
    if (++answer->all_stacks > question_.max_stacks && question_.max_stacks != 0) continue;
    answer->stacks.push_back({.process = judged.one->key.first,
                              .program = judged.one->program,
                              .kind = judged.one->key.second,
                              .grows = grows,
                              .entry = entry,
                              .frames = series.FramesOf(entry),
                              .ages = series.AgesOf(entry)});
    answer->knows_ages = answer->knows_ages || answer->stacks.back().ages.half_ns() >= 0;
  }
}

void LeakFinder::AddThreads(const OfKind& key, const NamedSeries& named, LeaksAnswer* answer) const {
  const auto& [program, series] = named;
  const Growth total = series.Total();
  size_t growing = 0;
  for (const ProcessSeries::Entry& entry : series.Entries()) {
    if (!IsLeak(entry.bytes.growth_class)) continue;
    if (entry.suppressed) {
      ++answer->suppressed;
      continue;
    }
    ++growing;
    if (++answer->all_stacks > question_.max_stacks && question_.max_stacks != 0) continue;
    answer->stacks.push_back({.process = key.first,
                              .program = program,
                              .kind = key.second,
                              .is_of_threads = true,
                              .grows = true,
                              .entry = entry,
                              .frames = series.FramesOf(entry)});
  }
  if (growing == 0) {
    if (total.growth_class != GrowthClass::kUndecided) return;
    answer->worst = std::max(answer->worst, Grows::kUndecided);
    answer->threads.push_back({program, series.TotalNow(), total, false});
    return;
  }
  answer->leaks += growing;
  answer->worst = std::max(answer->worst, Grows::kYes);
  answer->threads.push_back({program, series.TotalNow(), total});
}

LeakFinder::Chosen LeakFinder::Choose() const {
  Chosen chosen;
  std::map<std::string, std::vector<const std::pair<const OfKind, NamedSeries>*>> families;
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
      auto series = std::make_shared<ProcessSeries>(question_.stacks, question_.depth, &suppressions_);
      series->AddFamily(all, together);
      chosen.series.push_back(
          {members.back()->first,
           fmt::format("{}, {} processes {}", name, members.size(), together ? "together" : "in succession"),
           members.back()->first.second, std::move(series), true});
    }
  }
  for (const auto& process : processes_) {
    const ProcessSeries& series = process.second.second;
    // The others of a family may hide a process that grows and ran for long enough.
    if (of_family.contains(process.first) && !LeaksAlone(series)) continue;
    if (Counts(series) && (chosen.series.empty() || of_family.empty() || series.evidence() >= kMinSnapshots)) {
      chosen.series.push_back({process.first, process.second.first, process.first.second,
                               std::shared_ptr<const ProcessSeries>(std::shared_ptr<void>(), &series), false});
    } else {
      ++chosen.left_out;
    }
  }
  return chosen;
}

std::vector<LeakFinder::Judged> LeakFinder::Judge(const Chosen& chosen) {
  std::vector<Judged> judged;
  for (const Chosen::One& one : chosen.series) {
    Judged& of = judged.emplace_back(Judged{&one, one.series->Entries(), {}, {}});
    of.answer = AnswerOf(*one.series, of.entries);
    of.rate = RateOf(*one.series, of.entries, of.answer);
  }
  return judged;
}

std::optional<MemoryAnswer> LeakFinder::MemoryOf(const std::string& process) const {
  const auto memory = memory_.find(process);
  return memory == memory_.end() ? std::nullopt : memory->second.Answer();
}

// Keeps one program of a folder, the one that grows most, or holds most if none grows: its growing processes, at most
// kMaxProcesses, or its largest process. Returns nothing if there are no others.
std::optional<LeaksAnswer::Others> LeakFinder::LeaveOutOthers(std::vector<Judged>* judged) const {
  constexpr size_t kMaxProcesses = 3, kMaxNamed = 4;
  if (question_.all || !is_from_folders_ || judged->empty()) return std::nullopt;
  std::set<std::string> growing_threads;  // processes
  for (const auto& [key, named] : threads_) {
    if (Counts(named.second) && IsLeak(named.second.Total().growth_class)) growing_threads.insert(key.first);
  }
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
  for (const Judged& of : *judged) {
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
  LeaksAnswer::Others others = {.of_same_program = own.size() - kept.size(),
                                .processes = processes.size(),
                                .chosen_grow = processes.at(*kept.begin()).leaks};
  for (const auto& [other, rank] : programs) {
    if (other == program) continue;
    if (others.programs.size() + (others.of_same_program > 0 ? 1 : 0) >= kMaxNamed) {
      ++others.more_programs;
    } else {
      others.programs.emplace_back(other.substr(0, other.find('\n')), rank.grows);
    }
  }
  if (others.of_same_program == 0 && others.programs.empty()) return std::nullopt;
  std::erase_if(*judged, [&](const Judged& of) { return !kept.contains(of.one->key.first); });
  return others;
}

// Returns whether a series is judged. Skips short processes if there are longer ones.
bool LeakFinder::Counts(const ProcessSeries& series) const {
  const auto has_enough = [](const auto& process) { return process.second.second.evidence() >= kMinSnapshots; };
  const bool any = std::ranges::any_of(processes_, has_enough) || std::ranges::any_of(threads_, has_enough);
  return !any || series.evidence() >= kMinSnapshots;
}

double LeakFinder::ShortestHours() const {
  double hours = std::numeric_limits<double>::infinity();
  for (const auto* all : {&processes_, &threads_}) {
    for (const auto& [key, named] : *all) {
      if (Counts(named.second)) hours = std::min(hours, named.second.Hours());
    }
  }
  return hours;
}

// Returns how to get the names missing in a process's newest snapshot.
std::string LeakFinder::HowToNameIn(const OfKind& process) const {
  const ProfileFile& newest = newest_.at(process);
  const auto plumbing = PlumbingOf(newest, question_.stacks.plumbing);
  const auto in_use = FindMetric(*newest.profile, "inuse_space");
  if (!plumbing.ok() || !in_use.ok()) return "";
  return HowToName(UnnamedCodeOf(*newest.profile, *in_use, plumbing->get()), question_.files);
}

absl::StatusOr<std::vector<ProgramGrowth>> FindGrowth(const LeaksQuestion& question, std::ostream& err) {
  LeakFinder finder(question);
  if (const auto prepared = finder.Prepare(); !prepared.ok()) return prepared;
  if (const auto read = finder.Read(err); !read.ok()) return read;
  return finder.Growths();
}

}  // namespace holdfast
