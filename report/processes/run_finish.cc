#include "report/processes/run_finish.h"

#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "fmt/format.h"
#include "report/base/say.h"
#include "report/export/output_folder.h"
#include "report/base/printable.h"
#include "report/table/table_folder.h"
#include "sampler/spawn_exporter.h"

namespace holdfast {
namespace {

constexpr int64_t kMostMs = 5000;
constexpr int64_t kSilentMs = 500;
constexpr int kStepMs = 10;
constexpr size_t kMostProcessesShown = 12;

int64_t NowMs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1000} + now.tv_nsec / 1'000'000;
}

std::vector<std::string> TablesOf(const FinishedRun& run, Liveness liveness) {
  std::vector<std::string> found;
  for (const FoundTable& table : ListTables(run.tables)) {
    if (table.out == run.out && table.liveness == liveness)
      found.push_back(fmt::format("{}/{}", run.tables, table.name));
  }
  return found;
}

std::string Count(size_t number, std::string_view thing, std::string_view things) {
  return fmt::format("{} {}", number, number == 1 ? thing : things);
}

// `path` from here, when it lies here: shorter to read and to type.
std::string FromHere(const std::string& path) {
  char here[4096];
  if (getcwd(here, sizeof here) == nullptr) return path;
  const std::string prefix = fmt::format("{}/", here);
  return path.starts_with(prefix) ? path.substr(prefix.size()) : path;
}

std::string WhyNotWritten(const FinishedRun& run) {
  if (!run.has_exporter) return "HOLDFAST_EXPORTER=no";
  struct statvfs info;
  if (access(run.out.c_str(), F_OK) != 0) return fmt::format("{} is gone", run.out);
  if (access(run.out.c_str(), W_OK) != 0) return fmt::format("{} cannot be written", run.out);
  if (statvfs(run.out.c_str(), &info) == 0 && info.f_bavail == 0) return fmt::format("no space is left in {}", run.out);
  return "the exporter did not do it in time";
}

struct ProcessFiles {
  std::string program;
  uint32_t pid = 0;
  std::map<std::string, ProfileName> newest;  // by kind
};

// New files, grouped by process: the program's own first, then by pid.
std::vector<ProcessFiles> NewFiles(const FinishedRun& run, const std::vector<std::string>& names) {
  std::map<std::pair<uint32_t, std::string>, ProcessFiles> processes;
  for (const std::string& text : names) {
    const std::optional<ProfileName> name = ParseProfileName(text);
    if (!name || run.names_before.contains(text)) continue;
    ProcessFiles& process = processes[{name->pid, name->program}];
    process.program = name->program;
    process.pid = name->pid;
    const auto [newest, is_new] = process.newest.try_emplace(name->kind, *name);
    if (!is_new && newest->second.seq < name->seq) newest->second = *name;
  }
  std::vector<ProcessFiles> result;
  for (auto& [key, process] : processes) result.push_back(std::move(process));
  std::stable_partition(result.begin(), result.end(),
                        [&run](const ProcessFiles& process) { return process.pid == static_cast<uint32_t>(run.pid); });
  return result;
}

std::string HowToSeeMore(const FinishedRun& run) {
  std::vector<std::string> hints;
  if (run.heap_interval != "1B") {
    hints.push_back(fmt::format("--heap-interval (now {}; 1 records every allocation)", run.heap_interval));
  }
  if (run.lock_interval != "1ns") {
    hints.push_back(fmt::format("--lock-interval (now {}; 1ns records every wait)", run.lock_interval));
  }
  if (hints.empty()) return "It allocated nothing and waited for no lock, or ended before it could.";
  return fmt::format("To see more, lower {}.", fmt::join(hints, " or "));
}

}  // namespace

std::vector<std::string> AwaitProfiles(const FinishedRun& run, HeldSignals& signals,
                                       const std::function<void()>& restart_exporter) {
  const int64_t start_ms = NowMs();
  bool said = run.quiet, restarted = false;
  while (true) {
    std::vector<std::string> left = TablesOf(run, Liveness::kDead);
    const int64_t waited_ms = NowMs() - start_ms;
    if (left.empty() || !run.has_exporter || waited_ms > kMostMs) return left;
    if (!restarted && !ExporterServes(run.tables.c_str(), run.out.c_str())) {
      restarted = true;
      restart_exporter();
    }
    if (!said && waited_ms > kSilentMs) {
      said = true;
      Say(fmt::format("writing the last profiles of {}, at most 5 s …", Count(left.size(), "process", "processes")));
    }
    if (signals.AskedToEnd(kStepMs)) return left;
  }
}

size_t StillProfiled(const FinishedRun& run) { return TablesOf(run, Liveness::kAlive).size(); }

std::string Summary(const FinishedRun& run, const std::vector<std::string>& names_now,
                    const std::vector<std::string>& tables_left, size_t still_profiled) {
  const std::vector<ProcessFiles> processes = NewFiles(run, names_now);
  std::string text;
  if (!processes.empty()) {
    text += fmt::format("holdfast: profiles of {} in {}:\n", Count(processes.size(), "process", "processes"),
                        Printable(FromHere(run.out)));
    for (size_t i = 0; i < processes.size() && i < kMostProcessesShown; ++i) {
      text += fmt::format("  {} (pid {})\n", Printable(processes[i].program), processes[i].pid);
      for (const auto& [kind, name] : processes[i].newest) text += fmt::format("    {}\n", Printable(name.ToString()));
    }
    if (processes.size() > kMostProcessesShown) {
      text += fmt::format("  and {} more\n", Count(processes.size() - kMostProcessesShown, "process", "processes"));
    }
    const auto& newest = processes[0].newest;
    const auto heap = newest.find("heap");
    const ProfileName& first = (heap != newest.end() ? heap : newest.begin())->second;
    text += fmt::format("holdfast: what to type next:\n    holdfast top {}\n",
                        Printable(ShellQuoted(FromHere(fmt::format("{}/{}", run.out, first.ToString())))));
  }
  const bool has_main = !processes.empty() && processes[0].pid == static_cast<uint32_t>(run.pid);
  const auto main_left = std::find_if(tables_left.begin(), tables_left.end(), [&run](const std::string& table) {
    return table.find(fmt::format("/holdfast.{}.{}.", geteuid(), run.pid)) != std::string::npos;
  });
  if (!has_main && main_left == tables_left.end()) {
    text += fmt::format("holdfast: {} (pid {}): nothing was sampled. {}\n", Printable(run.program), run.pid,
                        HowToSeeMore(run));
  }
  if (!tables_left.empty()) {
    text += fmt::format("holdfast: {} not written as profiles ({}):\n",
                        Count(tables_left.size(), "table is", "tables are"), Printable(WhyNotWritten(run)));
    for (const std::string& table : tables_left) text += fmt::format("    {}\n", Printable(table));
    text += fmt::format("holdfast: to make profiles of {}{}:\n    holdfast collect {}{}\n",
                        tables_left.size() == 1 ? "it" : "them", run.has_exporter ? ", once that is mended" : "",
                        Printable(ShellQuoted(FromHere(run.out))),
                        run.tables == "/dev/shm" ? "" : Printable(" --tables " + ShellQuoted(run.tables)));
  }
  if (still_profiled > 0) {
    text += fmt::format("holdfast: {} on, profiled into {}.\n", Count(still_profiled, "process runs", "processes run"),
                        Printable(FromHere(run.out)));
  }
  return text;
}

}  // namespace holdfast
