#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "report/analysis/stuck.h"
#include "report/base/say.h"
#include "report/commands/commands.h"
#include "report/export/lock_names.h"
#include "report/export/profile_builder.h"
#include "report/processes/find_tables.h"
#include "report/symbolize/module_symbolizer.h"
#include "report/symbolize/profile_symbolizer.h"
#include "report/table/look_at_waits.h"

namespace holdfast {
namespace {

struct StuckOptions {
  std::string pid;
  std::vector<std::string> tables;
  bool json = false;
};

// Threads that wait for nothing that we know of: what they do may be the answer.
constexpr size_t kMostOthers = 16;
// Names of functions are enough: inlined ones as far as there is time.
constexpr std::chrono::milliseconds kInlinedTime{40};

int RunStuck(const StuckOptions& options) {
  const absl::StatusOr<pid_t> pid = ParsePid(options.pid);
  if (!pid.ok()) return Failed(pid.status());
  if (const absl::Status status = BecomeUserOf(*pid); !status.ok()) return Failed(status);
  const absl::StatusOr<ProcessTable> process = FindTableOf(*pid, options.tables);
  if (!process.ok()) return Failed(process.status());
  absl::StatusOr<Snapshot> snapshot = process->table.TakeSnapshot();
  if (!snapshot.ok()) return Failed(snapshot.status());
  LookAtWaits(process->table, &*snapshot, kMostOthers);
  snapshot->lock_pairs.clear();  // who waited for whom before: stacks that would have to be named
  Profile profile = BuildWaitingProfile(*snapshot);
  ModuleSymbolizer symbolizer;
  Symbolize(&profile, symbolizer, {.deadline = Deadline::In(kInlinedTime), .perf_map = true});
  WriteLockNames(*snapshot, &profile);
  std::cout << (options.json ? StuckJson(profile, *pid) : StuckText(profile, process->Name()));
  if (!snapshot->lock_intervals.empty() && snapshot->lock_intervals.back().interval == 0) {
    Say(process->Name() + ": locks are not profiled (--lock-interval 0): holdfast set PID lock-interval=100us");
  }
  return HasDeadlock(profile) ? kFinding : kFine;
}

}  // namespace

void AddStuckCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<StuckOptions>();
  CLI::App* stuck = app.add_subcommand("stuck", "Who waits for whom now, in a running program; deadlocks first");
  stuck->footer(
      "For a program that hangs, or nearly: every thread that waits for a lock, a condition, a semaphore, another thread …\n"
      "now, for what, since when, and who holds it. Threads that wait for each other come first, in a line that begins\n"
      "with `deadlock:`. Of a holder that does not wait it says what it does: its stack, its system call. The program takes\n"
      "no part in it, is not stopped, and may itself be stopped or deadlocked.\n"
      "\n"
      "  holdfast stuck 4242                  one screen\n"
      "  holdfast stuck --json 4242           every wait, with whole stacks\n"
      "  holdfast stuck 4242 >/dev/null || echo deadlocked\n"
      "\n"
      "  T2 is the second oldest thread that lives, T1 is main. `transfer ← handle`: handle calls transfer, which waits.\n"
      "  A mutex and a reader-writer lock that is written name their holder; futexes (std::sync of Rust, absl::Mutex,\n"
      "  std::atomic::wait), spin locks and readers do not: then who got it last after a wait is named, if anybody did.\n"
      "  What a stuck program leaves is in every snapshot, too: holdfast dump 4242, then holdfast locks, top, html.\n"
      "\n"
      "Exit status: 0 no deadlock, 1 a deadlock, 2 wrong usage, 3 it could not be done.");
  stuck->add_option("PID", options->pid, "The process, as holdfast ls shows it")->required();
  stuck->add_flag("--json", options->json, "All of it, for programs");
  stuck->add_option("--tables", options->tables, "Folder of table files to look into [default: all that are in use]")
      ->allow_extra_args(false);
  stuck->callback([options, invocation] { invocation->exit_code = RunStuck(*options); });
}

}  // namespace holdfast
