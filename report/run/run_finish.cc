#include "report/run/run_finish.h"

#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/how_to_name.h"
#include "report/analysis/opening.h"
#include "report/analysis/profiles/metric.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/builder/output_folder.h"
#include "report/daemon/served_users.h"
#include "report/daemon/stalled_exporter.h"
#include "report/daemon/sweep_tables.h"
#include "report/observe/table/folder_owner.h"
#include "report/observe/table/table_destination.h"
#include "report/observe/table/table_folder.h"
#include "report/profile/pprof.h"
#include "report/profile/typed_records.h"
#include "report/run/program_check.h"
#include "report/run/started_programs.h"
#include "report/run/why_nothing.h"
#include "sampler/contract/exporter_service.h"

namespace holdfast {
namespace {

// How long to wait if nothing can be written, and while an exporter is busy: a million new stacks on a busy machine
// take a while.
constexpr int64_t kMaxMs = 5'000, kMaxAtWorkMs = 60'000;
constexpr int64_t kSilentMs = 500;
constexpr int kStepMs = 10;
constexpr size_t kMaxProcessesShown = 12, kMaxProcessesRead = 256;
constexpr size_t kSnapshotsForLeaks = 5;

int64_t NowMs() { return NowNs() / kMs; }

std::vector<TableLeft> TablesOf(const FinishedRun& run, Liveness liveness) {
  std::vector<TableLeft> found;
  const FolderId id = FolderIdOf(run.out);
  for (const FoundTable& table : ListTablesOfAll(run.tables)) {
    if (table.liveness != liveness || !GoesTo(table, run.out, id)) continue;
    found.push_back({fmt::format("{}/{}", run.tables, table.name), table.owner.pid, table.user,
                     table.user != geteuid() && !HasMark(run.tables, run.out, id, table.user)});
  }
  return found;
}

// Small processes that were killed have left their tables hidden (--skip-small).
void ShowKilled(const FinishedRun& run) {
  const absl::StatusOr<FileDescriptor> folder = OpenFolder(run.tables);
  if (!folder.ok() || !AnySmall(NamesOfOurs(*folder))) return;
  ShowSmallTables(*folder);
  for (const uid_t user : OtherUsersOfTables(*folder)) ShowSmallTables(*folder, user);
  AnnounceTable(run.tables.c_str(), run.out.c_str(), FolderIdOf(run.out));
}

std::string Counted(size_t number, std::string_view thing, std::string_view things) {
  return fmt::format("{} {}", number, number == 1 ? thing : things);
}

// Returns `path` relative to the current folder if it is inside: shorter to read and to type.
std::string FromHere(const std::string& path) {
  char here[4096];
  if (getcwd(here, sizeof here) == nullptr) return path;
  const std::string prefix = fmt::format("{}/", here);
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

// Returns nothing if the profile can be written.
std::optional<std::string> WhyNotWritable(const FinishedRun& run) {
  if (!run.has_exporter) return "HOLDFAST_EXPORTER=no";
  struct statvfs info;
  if (access(run.out.c_str(), F_OK) != 0) return fmt::format("{} is gone", run.out);
  if (access(run.out.c_str(), W_OK) != 0) return fmt::format("{} cannot be written", run.out);
  if (statvfs(run.out.c_str(), &info) == 0 && info.f_bavail == 0) return fmt::format("no space is left in {}", run.out);
  if (!run.stalled_exporter.empty()) return run.stalled_exporter;
  return std::nullopt;
}

struct ProcessFiles {
  std::string program;
  uint32_t pid = 0;
  std::map<std::string, ProfileName> newest;  // by kind
  std::map<std::string, ProfileName> before;  // by kind: the snapshot before the newest
  std::map<std::string, size_t> snapshots;    // by kind: how many snapshots there are
};

// Returns the new files, grouped by process: the program itself first, then by pid.
std::vector<ProcessFiles> NewFiles(const FinishedRun& run, const std::vector<std::string>& names) {
  std::map<std::pair<uint32_t, std::string>, ProcessFiles> processes;
  for (const std::string& text : names) {
    const std::optional<ProfileName> name = ParseProfileName(text);
    if (!name || run.names_before.contains(text)) continue;
    ProcessFiles& process = processes[{name->pid, name->program}];
    process.program = ProgramOfFileName(name->program);
    process.pid = name->pid;
    ++process.snapshots[name->kind];
    const auto [newest, is_new] = process.newest.try_emplace(name->kind, *name);
    if (is_new) continue;
    ProfileName older = *name;
    if (newest->second.seq < name->seq) std::swap(older, newest->second);
    const auto [before, is_first] = process.before.try_emplace(name->kind, older);
    if (!is_first && before->second.seq < older.seq) before->second = older;
  }
  std::vector<ProcessFiles> result;
  for (auto& [key, process] : processes) result.push_back(std::move(process));
  std::stable_partition(result.begin(), result.end(),
                        [&run](const ProcessFiles& process) { return process.pid == static_cast<uint32_t>(run.pid); });
  return result;
}

struct Found {
  std::string path;
  int64_t value = 0;  // of the metric shown first
  std::string text;   // "84MiB in use"
  std::shared_ptr<const Profile> profile = nullptr;
  size_t column = 0;        // of the metric
  size_t snapshots = 0;     // of this kind and process
  std::string before = {};  // path of the snapshot before it; "": none
  bool has_peak = false;    // whether the process has a peak profile
};

// Returns the profile of this kind with the largest value of the first of `metrics` that is not zero everywhere, or
// nothing if all are zero. If the program has freed everything, returns its own profile, unless another process still
// holds ten times what the program allocated.
std::optional<Found> Fullest(const FinishedRun& run, const std::vector<ProcessFiles>& processes,
                             const std::string& kind, const std::vector<std::pair<std::string, std::string>>& metrics) {
  std::vector<Found> fullest(metrics.size()), of_main(metrics.size());
  for (size_t i = 0; i < processes.size() && i < kMaxProcessesRead; ++i) {
    const auto newest = processes[i].newest.find(kind);
    if (newest == processes[i].newest.end()) continue;
    const std::string path = fmt::format("{}/{}", run.out, newest->second.ToString());
    auto read = ReadPprofFile(path);
    if (!read.ok()) continue;
    const auto profile = std::make_shared<const Profile>(*std::move(read));
    std::vector<Found> own(metrics.size());
    for (size_t m = 0; m < metrics.size(); ++m) {
      const auto column = FindMetric(*profile, metrics[m].first);
      const int64_t value = column.ok() ? profile->Total(*column) : 0;
      if (value <= 0) continue;
      const std::string_view unit = profile->strings[profile->sample_types[*column].unit];
      own[m] = {.path = path,
                .value = value,
                .text = FormatValue(value, unit, "auto") + metrics[m].second,
                .profile = profile,
                .column = *column,
                .snapshots = processes[i].snapshots.at(kind),
                .has_peak = processes[i].newest.contains("peak")};
      if (const auto before = processes[i].before.find(kind); before != processes[i].before.end())
        own[m].before = fmt::format("{}/{}", run.out, before->second.ToString());
      if (value > fullest[m].value) fullest[m] = own[m];
    }
    // If a shell executed the program, this selects the program.
    if (processes[i].pid == static_cast<uint32_t>(run.pid) && own.back().value > of_main.back().value)
      of_main = std::move(own);
  }
  // The last metric includes freed memory: at the end, a helper may have more in use than the program.
  constexpr int64_t kMuchMore = 10;
  const bool main_matters = of_main.back().value > 0 && of_main.back().value >= fullest.back().value / kMuchMore;
  const int64_t held = of_main.front().value, allocated = of_main.back().value;
  const bool all_was_freed = held < allocated / 100;
  const bool other_holds_most = metrics.size() > 1 && fullest.front().value > held &&
                                (!all_was_freed || fullest.front().value / kMuchMore > allocated);
  if (main_matters && !other_holds_most) fullest = std::move(of_main);
  const auto found = std::find_if(fullest.begin(), fullest.end(), [](const Found& one) { return one.value > 0; });
  return found == fullest.end() ? std::nullopt : std::optional(*found);
}

// Returns the snapshot before this one if views of the folder show that, because the process freed most of its memory at
// its end.
std::optional<Profile> BeforeFreedAtEnd(const Found& found) {
  if (found.before.empty()) return std::nullopt;
  auto before = ReadPprofFile(found.before);
  if (!before.ok() || !FreedAtExit(DescribeFile(found.before, *before), DescribeFile(found.path, *found.profile)))
    return std::nullopt;
  return *std::move(before);
}

// Returns how views of the folder open, judging by the process that matters most.
Opening OpeningOfRun(const Profile& heap, bool has_peak) {
  auto plumbing = Plumbing::Make(heap, {});
  const auto own = plumbing.ok() ? OwnMemory::Of(heap, "", &*plumbing) : std::nullopt;
  if (!own.has_value()) return Opening::kInUse;
  return OpeningOf({*own}, has_peak ? std::set<std::string>{""} : std::set<std::string>());
}

std::optional<LockTrouble> TroubleIn(const Found& waits) {
  auto plumbing = Plumbing::Make(*waits.profile, {});
  return plumbing.ok() ? LockTroubleOf(*waits.profile, &*plumbing) : std::nullopt;
}

// Returns what provides the missing names, for all files of the run.
std::string HowToNameIn(const Found& found, const std::string& files) {
  auto plumbing = Plumbing::Make(*found.profile, {});
  return plumbing.ok() ? HowToName(UnnamedCodeOf(*found.profile, found.column, &*plumbing), {files}) : "";
}

// Returns the commands that answer a question here: those for kinds that are not empty.
std::string NextSteps(const FinishedRun& run, const std::vector<ProcessFiles>& processes) {
  std::vector<std::pair<std::string, std::string>> commands;  // command and reason
  const auto quoted = [](const std::string& path) { return ShellQuoted(FromHere(path)); };
  const auto heap =
      Fullest(run, processes, "heap", {{"inuse_space", " in use"}, {"alloc_space", " allocated, all freed"}});
  auto waits = Fullest(run, processes, "block", {{"delay", " waited"}});
  if (!waits.has_value()) waits = Fullest(run, processes, "mutex", {{"delay", " waited"}});
  const auto trouble = waits.has_value() ? TroubleIn(*waits) : std::nullopt;
  const std::string locks = "holdfast locks " + quoted(run.out);
  if (trouble.has_value()) commands.emplace_back(locks, "threads waited " + Printable(LockTroubleText(*trouble)));
  if (heap.has_value()) {
    const std::optional<Profile> before = BeforeFreedAtEnd(*heap);
    const Opening opening = OpeningOfRun(before.has_value() ? *before : *heap->profile, heap->has_peak);
    if (opening == Opening::kPeak) {
      const int64_t peak = PeakBytesOf(*heap->profile).value_or(0);
      commands.emplace_back(
          "holdfast top " + quoted(run.out),
          fmt::format("the peak{}: the program freed all of it", peak == 0 ? "" : ", " + FormatSize(peak) + " in use"));
    } else if (before.has_value()) {
      commands.emplace_back("holdfast top " + quoted(run.out), "in use before the program freed it on exit");
    } else {
      commands.emplace_back("holdfast top " + quoted(heap->path), heap->text);
    }
  }
  if (heap.has_value() && heap->snapshots >= kSnapshotsForLeaks) {
    commands.emplace_back("holdfast leaks " + quoted(run.out),
                          fmt::format("what grows, from {} snapshots", heap->snapshots));
  }
  if (waits.has_value() && !trouble.has_value()) {
    if (commands.empty()) commands.emplace_back("holdfast top " + quoted(waits->path), waits->text);
    commands.emplace_back(locks, "the contended locks and their holders");
  }
  using Metrics = std::vector<std::pair<std::string, std::string>>;
  if (Fullest(run, processes, "wall", {{"wall", ""}}).has_value())
    commands.emplace_back("holdfast threads " + quoted(run.out), "where the time of each thread went");
  const std::pair<const char*, Metrics> kOthers[] = {
      {"map", {{"inuse_space", " mapped"}, {"alloc_space", " mapped, all unmapped"}}},
      {"threads", {{"created", " threads"}}},
      {"exceptions", {{"exceptions", " exceptions"}}},
      {"cpu", {{"cpu", " of CPU time"}}}};
  for (const auto& [kind, metrics] : kOthers) {
    if (!commands.empty()) break;
    if (const auto other = Fullest(run, processes, kind, metrics); other.has_value())
      commands.emplace_back("holdfast top " + quoted(other->path), other->text);
  }
  if (commands.empty())
    commands.emplace_back("holdfast info " + quoted(run.out), "nothing was sampled");
  else
    commands.emplace_back("holdfast html " + quoted(run.out) + " -o report.html", "everything on one page");
  size_t width = 0;
  for (const auto& [command, why] : commands) width = std::max(width, command.size());
  std::string text = "holdfast: what to type next:\n";
  for (const auto& [command, why] : commands) text += fmt::format("    {:<{}}  # {}\n", Printable(command), width, why);
  for (const auto& found : {heap, waits}) {
    const std::string how = found.has_value() ? HowToNameIn(*found, FromHere(run.out)) : "";
    if (how.empty()) continue;
    text += fmt::format("holdfast: {}: {}.\n", Printable(FromHere(found->path)), Printable(how));
    break;  // one such command is enough
  }
  return text;
}

// The process's own record of an allocator in its executable; "": none.
std::string AboutAllocator(const FinishedRun& run, const ProcessFiles& process) {
  std::vector<std::string> names;
  for (const auto& [kind, name] : process.newest)
    names.insert(kind == "heap" ? names.begin() : names.end(), name.ToString());
  for (const std::string& name : names) {
    const auto profile = ReadPprofFile(fmt::format("{}/{}", run.out, name));
    if (!profile.ok()) continue;
    const std::optional<record::Allocator>& allocator = profile->records().allocator;
    if (!allocator.has_value()) return "";
    if (!allocator->incomplete.empty())
      return fmt::format("the heap profile is incomplete: {}.{}{}", allocator->incomplete,
                         allocator->not_seen.empty() ? "" : " Not seen either: ", allocator->not_seen);
    return fmt::format("{}.", allocator->outcome);
  }
  return "";
}

std::string HowToSeeMore(const FinishedRun& run, const StartedCommand& started) {
  if (std::string why = WhyNothing(run, started); !why.empty()) return why;
  std::vector<std::string> hints;
  if (run.heap_interval != "1B") {
    hints.push_back(fmt::format("--heap-interval (now {}; 1 records every allocation)", run.heap_interval));
  }
  if (run.lock_interval != "1ns") {
    hints.push_back(fmt::format("--lock-interval (now {}; 1ns records every wait)", run.lock_interval));
  }
  if (hints.empty()) return "It allocated nothing and waited for no lock.";
  return fmt::format("To see more, lower {}.", fmt::join(hints, " or "));
}

}  // namespace

std::vector<TableLeft> AwaitProfiles(FinishedRun& run, HeldSignals& signals,
                                     const std::function<void()>& restart_exporter) {
  const int64_t start_ms = NowMs();
  bool said = run.quiet, restarted = false;
  ShowKilled(run);
  ExporterProgress progress;
  while (true) {
    std::vector<TableLeft> left = TablesOf(run, Liveness::kDead);
    const int64_t waited_ms = NowMs() - start_ms;
    const bool comes = !std::all_of(left.begin(), left.end(), [](const TableLeft& table) { return table.is_foreign; });
    if (!comes || !run.has_exporter) return left;
    const bool served = ExporterServes(run.tables.c_str(), run.out.c_str(), FolderIdOf(run.out));
    if (waited_ms > kMaxAtWorkMs || (waited_ms > kMaxMs && (!served || WhyNotWritable(run).has_value()))) return left;
    if (served && progress.IsStalled(run.tables.c_str(), run.out.c_str(), FolderIdOf(run.out))) {
      run.stalled_exporter = WhyStalled(progress);
      return left;
    }
    if (!restarted && !served) {
      restarted = true;
      restart_exporter();
    }
    if (!said && waited_ms > kSilentMs) {
      said = true;
      Say(fmt::format("writing the last profiles of {} …", Counted(left.size(), "process", "processes")));
    }
    if (signals.AskedToEnd(kStepMs)) return left;
  }
}

size_t RunningProcesses(const FinishedRun& run) { return TablesOf(run, Liveness::kAlive).size(); }

std::vector<std::string> NewestFiles(const FinishedRun& run, const std::vector<std::string>& names_now,
                                     const std::string& kind) {
  std::vector<std::string> files;
  for (const ProcessFiles& process : NewFiles(run, names_now)) {
    if (const auto newest = process.newest.find(kind); newest != process.newest.end())
      files.push_back(fmt::format("{}/{}", run.out, newest->second.ToString()));
  }
  return files;
}

std::string Summary(const FinishedRun& run, const std::vector<std::string>& names_now,
                    const std::vector<TableLeft>& tables_left, size_t running) {
  const std::vector<ProcessFiles> processes = NewFiles(run, names_now);
  std::string text;
  if (!processes.empty()) {
    text += fmt::format("holdfast: profiles of {} in {}:\n", Counted(processes.size(), "process", "processes"),
                        Printable(FromHere(run.out)));
    for (size_t i = 0; i < processes.size() && i < kMaxProcessesShown; ++i) {
      text += processes[i].pid == 0 ? fmt::format("  {} (all its short processes)\n", Printable(processes[i].program))
                                    : fmt::format("  {} (pid {})\n", Printable(processes[i].program), processes[i].pid);
      for (const auto& [kind, name] : processes[i].newest) text += fmt::format("    {}\n", Printable(name.ToString()));
    }
    if (processes.size() > kMaxProcessesShown) {
      text +=
          fmt::format("  and {}\n", Counted(processes.size() - kMaxProcessesShown, "more process", "more processes"));
    }
    text += NextSteps(run, processes);
  }
  const bool has_main = !processes.empty() && processes[0].pid == static_cast<uint32_t>(run.pid);
  const auto main_left = std::find_if(tables_left.begin(), tables_left.end(), [&run](const TableLeft& table) {
    return table.pid == static_cast<uint32_t>(run.pid);
  });
  // For a script, check the program that it started.
  const StartedCommand started = FollowStarters(run.command, LookUpIn(getenv("PATH")));
  const bool is_starter = !processes.empty() && !started.by.empty();
  if (!has_main && main_left == tables_left.end() && !is_starter) {
    const std::string no_room = run.found_no_room ? WhyNoTable(run.tables) : "";
    text += no_room.empty() ? fmt::format("holdfast: {} (pid {}): nothing was sampled. {}\n", Printable(run.program),
                                          run.pid, HowToSeeMore(run, started))
                            : fmt::format("holdfast: {} (pid {}): no table could be created: {}.\n",
                                          Printable(run.program), run.pid, Printable(no_room));
  }
  if (has_main && run.heap_interval != "off") {
    std::string unseen = AboutAllocator(run, processes[0]);
    if (unseen.empty()) unseen = MissingFromHeap(run, started);
    if (!unseen.empty())
      text += fmt::format("holdfast: {} (pid {}): {}\n", Printable(run.program), run.pid, Printable(unseen));
  }
  // The starter may have a profile of its own.
  if (has_main && !started.drops_preload.empty())
    text += fmt::format("holdfast: {} (pid {}): {}\n", Printable(run.program), run.pid,
                        Printable(WhyNothing(run, started)));
  std::vector<TableLeft> own;
  std::map<uid_t, std::vector<TableLeft>> foreign;
  for (const TableLeft& table : tables_left) (table.is_foreign ? foreign[table.user] : own).push_back(table);
  const auto collect = [&](const std::string& options) {
    return fmt::format("    holdfast collect {}{}{}\n", options, Printable(ShellQuoted(FromHere(run.out))),
                       run.tables == "/dev/shm" ? "" : Printable(" --tables " + ShellQuoted(run.tables)));
  };
  const auto name = [&text](const std::vector<TableLeft>& tables) {
    for (const TableLeft& table : tables) text += fmt::format("    {}\n", Printable(table.path));
  };
  if (!own.empty()) {
    text += fmt::format("holdfast: {} not written as profiles ({}):\n", Counted(own.size(), "table is", "tables are"),
                        Printable(WhyNotWritable(run).value_or("not before run exited")));
    name(own);
    text += fmt::format("holdfast: to write profiles from {}{}:\n", own.size() == 1 ? "it" : "them",
                        run.has_exporter && WhyNotWritable(run).has_value() ? ", once that is fixed" : "");
    text += collect("");
  }
  for (const auto& [user, tables] : foreign) {
    text +=
        fmt::format("holdfast: {} of {} not written as profiles (no proof that a program of root became that user):\n",
                    Counted(tables.size(), "table", "tables"), Printable(UserName(user)));
    name(tables);
    text += fmt::format("holdfast: to write profiles from {}, if you trust {}:\n", tables.size() == 1 ? "it" : "them",
                        tables.size() == 1 ? "it" : "them");
    text += collect(fmt::format("--user {} ", user));
  }
  if (running > 0) {
    text += fmt::format("holdfast: {} on; profiles go to {}.\n", Counted(running, "process runs", "processes run"),
                        Printable(FromHere(run.out)));
  }
  return text;
}

}  // namespace holdfast
