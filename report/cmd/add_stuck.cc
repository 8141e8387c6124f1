#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/base/file_descriptor.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/split.h"
#include "report/builder/loaded_modules.h"
#include "report/builder/lock_names.h"
#include "report/builder/profile_builder.h"
#include "report/cmd/commands.h"
#include "report/cmd/view_options.h"
#include "report/daemon/find_tables.h"
#include "report/names/symbolize/module_symbolizer.h"
#include "report/names/symbolize/profile_symbolizer.h"
#include "report/observe/observe.h"
#include "report/observe/table/thread_status.h"
#include "report/profile/pprof.h"

namespace holdfast {
namespace {

struct StuckOptions {
  std::vector<std::string> pids, tables;
  bool children = false, json = false;
  CallsShown shown;
};

// Also show threads that wait for nothing known: their work may explain the wait. At most this many.
constexpr size_t kMaxOthers = 16;
// Function names are enough. Inlined functions are resolved only within this time.
constexpr std::chrono::milliseconds kInlinedTime{40};

struct Asked {
  pid_t pid;
  StuckProcess process;
  bool has_locks;  // whether the process profiles locks
};

absl::StatusOr<Asked> Ask(const ProcessTable& process, pid_t pid, ModuleSymbolizer& symbolizer) {
  const absl::StatusOr<ProcessState> state = Observe(process.table, {.waits = true, .other_threads = kMaxOthers});
  if (!state.ok()) return state.status();
  Asked asked{
      .pid = pid, .process = {.name = process.Name(), .profile = BuildWaitingProfile(*state)}, .has_locks = true};
  LoadedModules modules;
  OpenFiles open;
  modules.Look(process.table, &open);
  symbolizer.UseFilesOf(&modules.files());
  Symbolize(&asked.process.profile, symbolizer, {.deadline = Deadline::In(kInlinedTime), .perf_map = true});
  WriteLockNames(*state, &asked.process.profile, &modules.files());
  symbolizer.UseFilesOf(nullptr);
  const std::vector<IntervalChange>& intervals = state->table->lock_intervals;
  asked.has_locks = intervals.empty() || intervals.back().interval != 0;
  return asked;
}

// Returns the profiled descendants of `pid`, following living parents only.
std::vector<pid_t> DescendantsOf(pid_t pid, const std::vector<pid_t>& profiled) {
  std::vector<pid_t> found;
  for (const pid_t one : profiled) {
    pid_t at = one;
    for (int steps = 0; at > 1 && at != pid && steps < 64; ++steps) at = ParentOf(at);
    if (at == pid && one != pid) found.push_back(one);
  }
  return found;
}

std::vector<pid_t> OwnProfiledPids(const std::vector<std::string>& folders) {
  std::vector<pid_t> pids;
  for (const ProcessTable& one : FindTables(folders).tables) {
    if (one.liveness != Liveness::kDead && one.pid.has_value()) pids.push_back(*one.pid);
  }
  return pids;
}

// Returns the profiled processes of this user; for root, of all users.
std::vector<pid_t> ProfiledPids(const std::vector<std::string>& folders) {
  std::vector<pid_t> pids = OwnProfiledPids(folders);
  for (const uid_t user : OtherUsers(folders)) {
    const std::string text = AnswerOfUser(user, 0, [&] {
      std::string lines;
      for (const pid_t pid : OwnProfiledPids(folders)) lines += fmt::format("{}\n", pid);
      return lines;
    });
    for (const std::string_view line : Split(text, "\n")) {
      if (const absl::StatusOr<pid_t> pid = ParsePid(std::string(line)); pid.ok()) pids.push_back(*pid);
    }
  }
  return pids;
}

// Without a PID: all profiled processes of this user.
absl::StatusOr<std::vector<pid_t>> PidsOf(const StuckOptions& options) {
  std::vector<pid_t> pids;
  for (const std::string& text : options.pids) {
    const absl::StatusOr<pid_t> pid = ParsePid(text);
    if (!pid.ok()) return pid.status();
    pids.push_back(*pid);
  }
  if (!pids.empty() && !options.children) return pids;
  const std::vector<pid_t> profiled = ProfiledPids(options.tables);
  if (pids.empty()) return profiled;
  for (size_t i = 0, asked = pids.size(); i < asked; ++i) {
    for (const pid_t child : DescendantsOf(pids[i], profiled)) {
      if (std::find(pids.begin(), pids.end(), child) == pids.end()) pids.push_back(child);
    }
  }
  return pids;
}

absl::StatusOr<Asked> AskOwn(pid_t pid, const StuckOptions& options, ModuleSymbolizer& symbolizer) {
  const absl::StatusOr<ProcessTable> process = FindTableOf(pid, options.tables);
  if (!process.ok()) return process.status();
  return Ask(*process, pid, symbolizer);
}

// If root asks about another user's process, a child with that user's rights reads it. The child sends a line that says
// whether locks are profiled, a line with the process's name, and the profile; or an error.
absl::StatusOr<Asked> AskOf(pid_t pid, const StuckOptions& options, ModuleSymbolizer& symbolizer) {
  const std::optional<uid_t> user = UserOfProcess(pid);
  if (geteuid() != 0 || !user.has_value() || *user == 0) return AskOwn(pid, options, symbolizer);
  const std::string answer = AnswerOfUser(*user, pid, [&] {
    const absl::StatusOr<Asked> asked = AskOwn(pid, options, symbolizer);
    if (!asked.ok()) return fmt::format("failed\n{}", std::string(asked.status().message()));
    return fmt::format("{}\n{}\n{}", asked->has_locks ? "locks" : "none", asked->process.name,
                       EncodePprof(asked->process.profile));
  });
  const size_t first = answer.find('\n'), second = answer.find('\n', first + 1);
  if (first == std::string::npos) return absl::NotFoundError(fmt::format("process {}: cannot be examined.", pid));
  if (answer.starts_with("failed\n")) return absl::NotFoundError(Printable(answer.substr(first + 1)));
  if (second == std::string::npos) return absl::DataLossError(fmt::format("process {}: cannot be examined.", pid));
  absl::StatusOr<Profile> profile =
      DecodePprof(std::string_view(answer).substr(second + 1), fmt::format("process {}", pid));
  if (!profile.ok()) return profile.status();
  return Asked{
      .pid = pid,
      .process = {.name = Printable(answer.substr(first + 1, second - first - 1)), .profile = *std::move(profile)},
      .has_locks = answer.starts_with("locks\n")};
}

int RunStuck(const StuckOptions& options) {
  const Profile none;
  if (const auto compiles = Plumbing::Make(none, options.shown.plumbing); !compiles.ok())
    return Failed(compiles.status());
  const absl::StatusOr<std::vector<pid_t>> pids = PidsOf(options);
  if (!pids.ok()) return Failed(pids.status());
  const bool is_one = options.pids.size() == 1 && !options.children;
  if (pids->empty()) {
    Say("this user has no profiled process. Start one with: holdfast run -- PROGRAM, or name a PID");
    return kCouldNot;
  }
  ModuleSymbolizer symbolizer;
  std::vector<StuckProcess> processes;
  bool has_deadlock = false, any = false;
  for (const pid_t pid : *pids) {
    absl::StatusOr<Asked> asked = AskOf(pid, options, symbolizer);
    if (!asked.ok()) {
      if (is_one) return Failed(asked.status());
      Say(std::string(asked.status().message()));  // the process may have exited meanwhile
      continue;
    }
    any = true;
    has_deadlock = has_deadlock || HasDeadlock(asked->process.profile);
    if (options.json) std::cout << StuckJson(asked->process.profile, pid, options.shown);
    if (!asked->has_locks) {
      Say(asked->process.name +
          ": locks are not profiled (--lock-interval 0). Switch them on with: holdfast set PID lock-interval=100us");
    }
    processes.push_back(std::move(asked->process));
  }
  if (!any) return kCouldNot;
  if (!options.json) {
    std::cout << (is_one ? StuckText(processes[0].profile, processes[0].name, options.shown)
                         : StuckTextOfAll(processes, options.shown));
  }
  return has_deadlock ? kFinding : kFine;
}

}  // namespace

void AddStuckCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<StuckOptions>();
  CLI::App* stuck = app.add_subcommand("stuck", "Show who waits for whom in a running program; deadlocks first");
  stuck->footer(
      "For a program that hangs or is slow: shows every thread that waits now (for a lock, a condition, a semaphore, another\n"
      "thread …), what it waits for, since when, and who holds it. Deadlocks come first, in a line that begins with\n"
      "`deadlock:`. For a holder that does not wait, the stack and system call are shown. The program is not stopped, and may\n"
      "itself be stopped or deadlocked.\n"
      "\n"
      "  holdfast stuck 4242                  one screen\n"
      "  holdfast stuck --children 4242       also the processes that 4242 started\n"
      "  holdfast stuck                       all your profiled processes\n"
      "  holdfast stuck --fold none 4242      with the frames of libc and of locking\n"
      "  holdfast stuck --json 4242           every wait with its whole stack; one line per process\n"
      "  holdfast stuck 4242 >/dev/null; [ $? = 1 ] && echo deadlocked\n"
      "\n"
      "  T1 is the main thread, T2 the second oldest live thread. `transfer ← handle`: handle calls transfer, which waits.\n"
      "  Mutexes and write-locked reader-writer locks name their holder. Futexes (std::sync of Rust, absl::Mutex,\n"
      "  std::atomic::wait), spin locks and read locks do not: then the last thread that acquired the lock after a wait is\n"
      "  named, if any. Snapshots contain the same waits: holdfast dump 4242, then holdfast locks, top or html.\n"
      "\n"
      "Exit status: 0 no deadlock, 1 a deadlock, 2 wrong usage, 3 it cannot be examined.");
  stuck->add_option("PID", options->pids, "Process ids, as holdfast ls lists them [default: all of this user's]");
  stuck->add_flag("--children", options->children, "Include the processes that they started");
  stuck->add_flag("--each", options->shown.each, "List every lock [default: one line per class]");
  stuck->add_flag("--json", options->json, "Print everything as JSON");
  AddFold(stuck, &options->shown.folds, &options->shown.plumbing,
          "Calls to omit: plumbing (standard libraries and locking) or none [default: plumbing]");
  stuck->add_option("--tables", options->tables, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  stuck->callback([options, invocation] { invocation->exit_code = RunStuck(*options); });
}

}  // namespace holdfast
