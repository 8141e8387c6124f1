#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/locks/waiting_list.h"
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
#include "report/run/doctor_surroundings.h"
#include "report/show/never_woken_view.h"

namespace holdfast {
namespace {

struct StuckOptions {
  std::vector<std::string> pids, tables;
  bool children = false, json = false, stop = false;
  CallsShown shown;
};

// Also show threads that wait for nothing known: their work may explain the wait. At most this many.
constexpr size_t kMaxOthers = 16;
// Function names are enough. Inlined functions are resolved only within this time.
constexpr std::chrono::milliseconds kInlinedTime{40};
constexpr char kLineBreak = '\x1f';  // in text that is sent as one line

struct Asked {
  pid_t pid;
  StuckProcess process;
  bool has_locks;  // whether the process profiles locks
  // Threads that can never be woken: JSON, and lines for people.
  std::string never_woken_json = "null", never_woken_text = "";
  size_t unknown_waits = 0;  // UnknownWaits
};

// Threads that sleep in a futex without a timeout, with the count of their switches.
std::map<pid_t, uint64_t> FutexSleepers(pid_t pid) {
  std::map<pid_t, uint64_t> sleepers;
  for (const auto& [thread, inner] : ThreadsOf(pid, false)) {
    const std::optional<ThreadSwitches> switches = SwitchesOf(pid, thread);
    if (!switches.has_value() || !switches->sleeps) continue;
    const std::optional<BlockedCall> call = BlockedCallOf(pid, thread);
    const bool is_futex = call.has_value() && call->number == SYS_futex && call->arguments[3] == 0;
    // The kernel may not show the call: then it counts as one.
    if (is_futex || ReadOfThread(pid, thread, "syscall").empty()) sleepers.emplace(thread, switches->count);
  }
  return sleepers;
}

// The library knows no wait that began before an attach, so such threads may be deadlocked. Counts those that slept before
// (`before`: a wait that had just begun is not recorded) and sleep still, and have no wait in the profile.
size_t UnknownWaits(pid_t pid, const std::map<pid_t, uint64_t>& before, const Profile& profile) {
  if (before.empty()) return 0;
  std::set<int64_t> known;
  const WaitingList list = ReadWaitingList(profile);
  for (uint32_t thread = 1; thread <= list.threads.size(); ++thread) {
    if (list.IsWaiting(thread)) known.insert(list.ThreadAt(thread).tid);
  }
  const std::map<pid_t, uint64_t> after = FutexSleepers(pid);
  size_t unknown = 0;
  for (const auto& [thread, inner] : ThreadsOf(pid, true)) {
    const auto then = before.find(thread), now = after.find(thread);
    if (then == before.end() || now == after.end() || then->second != now->second) continue;
    if (!known.contains(thread) && !known.contains(inner)) ++unknown;
  }
  return unknown;
}

std::string UnknownWaitsText(size_t threads) {
  if (threads == 0) return "";
  return fmt::format(
      "cannot tell whether there is a deadlock: {} sleep{} in waits that are not recorded, such as those that began before "
      "the attach. gdb's `thread apply all bt` shows {}.\n",
      threads == 1 ? "1 thread" : fmt::format("{} threads", threads), threads == 1 ? "s" : "",
      threads == 1 ? "it" : "them");
}

absl::StatusOr<Asked> Ask(const ProcessTable& process, pid_t pid, ModuleSymbolizer& symbolizer) {
  std::map<pid_t, uint64_t> sleepers;
  if (IsAttached(process.table)) sleepers = FutexSleepers(pid);
  if (!sleepers.empty()) {
    constexpr timespec kUntilRecorded = {0, 20'000'000};
    nanosleep(&kUntilRecorded, nullptr);
  }
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
  asked.unknown_waits = UnknownWaits(pid, sleepers, asked.process.profile);
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
  absl::StatusOr<Asked> asked = Ask(*process, pid, symbolizer);
  if (!asked.ok() || options.pids.empty()) return asked;
  const TracingRights rights(options.stop);
  const absl::StatusOr<NeverWoken> found = FindNeverWoken(pid, options.tables, options.stop, &rights);
  if (found.ok()) {
    asked->never_woken_json = NeverWokenJson(*found);
    asked->never_woken_text = NeverWokenText(*found, pid);
  } else if (options.stop || absl::IsResourceExhausted(found.status())) {
    asked->never_woken_text = fmt::format("never woken: {}\n", Printable(std::string(found.status().message())));
  }
  return asked;
}

// Returns the first line, and leaves the rest.
std::string TakeLine(std::string_view* text) {
  const size_t end = std::min(text->find('\n'), text->size());
  std::string line(text->substr(0, end));
  text->remove_prefix(std::min(end + 1, text->size()));
  return line;
}

// If root asks about another user's process, a child with that user's rights reads it. The child sends a line that says
// whether locks are profiled, one with the process's name, one with the count of unknown waits, two about threads that are never woken, and the profile; or an
// error.
absl::StatusOr<Asked> AskOf(pid_t pid, const StuckOptions& options, ModuleSymbolizer& symbolizer) {
  const std::optional<uid_t> user = UserOfProcess(pid);
  if (geteuid() != 0 || !user.has_value() || *user == 0) return AskOwn(pid, options, symbolizer);
  const std::string answer = AnswerOfUser(*user, pid, [&] {
    const absl::StatusOr<Asked> asked = AskOwn(pid, options, symbolizer);
    if (!asked.ok()) return fmt::format("failed\n{}", std::string(asked.status().message()));
    std::string lines = asked->never_woken_text;
    std::ranges::replace(lines, '\n', kLineBreak);
    return fmt::format("{}\n{}\n{}\n{}\n{}\n{}", asked->has_locks ? "locks" : "none", asked->process.name,
                       asked->unknown_waits, asked->never_woken_json, lines, EncodePprof(asked->process.profile));
  });
  std::string_view rest = answer;
  const std::string kind = TakeLine(&rest);
  if (kind.empty()) return absl::NotFoundError(fmt::format("process {}: cannot be examined.", pid));
  if (kind == "failed") return absl::NotFoundError(Printable(rest));
  const std::string name = TakeLine(&rest);
  Asked asked{.pid = pid, .process = {.name = Printable(name), .profile = {}}, .has_locks = kind == "locks"};
  asked.unknown_waits = strtoul(TakeLine(&rest).c_str(), nullptr, 10);
  asked.never_woken_json = TakeLine(&rest);
  asked.never_woken_text = TakeLine(&rest);
  std::ranges::replace(asked.never_woken_text, kLineBreak, '\n');
  absl::StatusOr<Profile> profile = DecodePprof(rest, fmt::format("process {}", pid));
  if (!profile.ok()) return profile.status();
  asked.process.profile = *std::move(profile);
  return asked;
}

// Names the process in the first line, for several processes.
std::string WithName(const std::string& text, const std::string& process) {
  return text.empty() ? "" : fmt::format("{}: {}", process, text);
}

int RunStuck(const StuckOptions& options) {
  SayIfEmulated();
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
  bool has_deadlock = false, any = false, named_failed = false, has_unknown = false;
  std::string never_woken;
  for (const pid_t pid : *pids) {
    absl::StatusOr<Asked> asked = AskOf(pid, options, symbolizer);
    if (!asked.ok()) {
      if (is_one) return Failed(asked.status());
      Say(std::string(asked.status().message()));
      // A process that was not named may have exited since it was listed.
      named_failed = named_failed || std::ranges::find(options.pids, std::to_string(pid)) != options.pids.end();
      continue;
    }
    any = true;
    has_deadlock = has_deadlock || HasDeadlock(asked->process.profile);
    has_unknown = has_unknown || asked->unknown_waits != 0;
    if (options.json) {
      std::string text = StuckJson(asked->process.profile, pid, options.shown);
      text.insert(text.rfind('}'), fmt::format(",\"never_woken\":{},\"unknown_waits\":{}", asked->never_woken_json,
                                               asked->unknown_waits));
      std::cout << text;
    }
    const std::string unknown = UnknownWaitsText(asked->unknown_waits);
    never_woken += is_one ? unknown : WithName(unknown, asked->process.name);
    never_woken += is_one ? asked->never_woken_text : WithName(asked->never_woken_text, asked->process.name);
    if (!asked->has_locks) {
      Say(asked->process.name +
          ": locks are not profiled (--lock-interval 0). Switch them on with: holdfast set PID lock-interval=100us");
    }
    processes.push_back(std::move(asked->process));
  }
  if (!any) return kCouldNot;
  if (!options.json) {
    std::cout << (is_one ? StuckText(processes[0].profile, processes[0].name, options.shown)
                         : StuckTextOfAll(processes, options.shown))
              << never_woken;
  }
  return Finished(has_deadlock ? kFinding : named_failed || has_unknown ? kCouldNot : kFine);
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
      "  holdfast stuck --stop 4242           certain about threads that are never woken: stops the program for a moment\n"
      "  holdfast stuck --json 4242           every wait with its whole stack; one line per process\n"
      "  holdfast stuck 4242 >/dev/null; [ $? = 1 ] && echo deadlocked\n"
      "\n"
      "  T1 is the main thread, T2 the second oldest live thread. `transfer ← handle`: handle calls transfer, which waits.\n"
      "  Mutexes and write-locked reader-writer locks name their holder. Futexes (std::sync of Rust, absl::Mutex,\n"
      "  std::atomic::wait), spin locks and read locks do not: then the last thread that acquired the lock after a wait is\n"
      "  named, if any. Snapshots contain the same waits: holdfast dump 4242, then holdfast locks, top or html.\n"
      "\n"
      "  `never woken:` lists threads that wait without a timeout for something to which no pointer leads, except from such\n"
      "  threads: nothing can wake these any more. A process is searched for them if it is named.\n"
      "\n"
      "Exit status: 0 no deadlock, 1 a deadlock, 2 wrong usage, 3 it cannot be examined, or it was attached, and threads sleep\n"
      "in waits that are not recorded (those that began before), so whether there is a deadlock cannot be told.");
  stuck->add_option("PID", options->pids, "Process ids, as holdfast ls lists them [default: all of this user's]");
  stuck->add_flag("--children", options->children, "Include the processes that they started");
  stuck->add_flag("--each", options->shown.each, "List every lock [default: one line per class]");
  stuck->add_flag("--json", options->json, "Print everything as JSON");
  stuck->add_flag("--stop", options->stop,
                  "Stop the process while its memory is copied, to be certain which threads are never woken");
  AddFold(stuck, &options->shown.folds, &options->shown.plumbing,
          "Calls to omit: plumbing (standard libraries and locking) or none [default: plumbing]");
  stuck->add_option("--tables", options->tables, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  stuck->callback([options, invocation] { invocation->exit_code = RunStuck(*options); });
}

}  // namespace holdfast
