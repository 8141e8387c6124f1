#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <time.h>

#include "sampler/capture/module_table.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/exporter_progress.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/enter.h"
#include "sampler/process/exporter_watch.h"
#include "sampler/process/process.h"
#include "sampler/record/holds.h"

namespace holdfast {

int SnapshotSignal() { return process.recording.load(std::memory_order_relaxed) ? process.options.signal : 0; }

void RequestSnapshot() {
  if (!OwnState()) return;
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;
  table->header()->snapshot_request.fetch_add(1, std::memory_order_release);
  NotifyExporter(process.location);
}

// A plugin may have called free for the first time since the last sample.
static void LookAtFreeCallsMuted() {
  const bool was_muted = thread_state.muted;
  Mute(thread_state);
  LookAtFreeCallsAgain(true);
  thread_state.muted = was_muted;
}

static bool IsExporterStalled(SharedTable& table, ExporterProgress* progress) {
  return progress->IsStalled(process.location.folder, process.options.out, process.out_id,
                             table.header()->exporter_pid.load(std::memory_order_relaxed));
}

// Threads that wait in AwaitProfile. A signal handler or another thread may end the process meanwhile: it waits, too.
static constinit std::atomic<int> awaiting{0};

// Asks for the last profile, and waits for it. `moment`: what the profile shows.
static void AskAndAwait(SharedTable& table, ExitMoment moment) {
  TableHeader& head = *table.header();
  if (moment != ExitMoment::kNone) SettleLocks();  // as AwaitLastProfile has done
  const bool is_served = StartExporter();
  // Just before the request, without which the exporter would copy the table for a later profile.
  ExitMoment none = ExitMoment::kNone;
  head.exit_moment.compare_exchange_strong(none, moment, std::memory_order_acq_rel);
  // Also where nobody answers: the file's time then says when this was.
  head.exit_request.store(1, std::memory_order_release);
  NotifyExporter(process.location);
  if (!is_served) return;
  constexpr int64_t kMaxNs = 2'000'000'000;
  constexpr timespec kStep = {0, ExporterProgress::kBetweenLooksNs};
  // The lock may be free for a moment: an exporter that gives it up looks for tables once more. Free twice: nobody answers.
  int steps_unserved = 0;
  // One that is stopped or frozen holds the lock. It writes the profile once it goes on: the table stays.
  ExporterProgress progress;
  const int64_t start_ns = KernelNs();
  for (int64_t waited_ns = 0; waited_ns < kMaxNs && steps_unserved < 2; waited_ns = KernelNs() - start_ns) {
    RawSyscall(SYS_futex, &head.exported, FUTEX_WAIT, 0, &kStep, 0, 0);
    if (head.exported.load(std::memory_order_acquire) != 0) return;
    steps_unserved = ExporterIsAlive(waited_ns) ? 0 : steps_unserved + 1;
    if (IsExporterStalled(table, &progress)) return;
  }
}

static void AwaitProfile(SharedTable& table, ExitMoment moment) {
  awaiting.fetch_add(1);
  AskAndAwait(table, moment);
  awaiting.fetch_sub(1);
}

static bool HasOtherThreads() {
  struct stat threads;
  constexpr uint64_t kLinksOfOne = 3;
  return !SyscallFailed(RawSyscall(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &threads, 0)) &&
         threads.st_nlink > kLinksOfOne;
}

// Whether to wait for the last profile before the exit handlers. They destroy objects that other threads still use: a
// program that has only microseconds for such a crash must not get milliseconds. With the end of PID 1 the exporter ends,
// too, and a leak check needs the state after the handlers.
static bool WaitsBeforeExitHandlers() {
  return process.options.leak_checker == 0 && RawSyscall(SYS_getpid) != 1 && HasOtherThreads();
}

// A state that no exporter has seen by now is not from before the exit handlers.
static void EndMoment(std::atomic<ExitMoment>& moment) {
  ExitMoment asked = ExitMoment::kAsked;
  moment.compare_exchange_strong(asked, ExitMoment::kMissed, std::memory_order_acq_rel);
}

void BeforeExitHandlers(bool process_ends) {
  if (!OwnState()) return;
  SharedTable* table = CurrentTable();
  if (table == nullptr || no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return;
  LookAtFreeCallsMuted();
  std::atomic<ExitMoment>& moment = table->header()->exit_moment;
  if (moment.load(std::memory_order_relaxed) == ExitMoment::kNone && process_ends && WaitsBeforeExitHandlers()) {
    AwaitProfile(*table, ExitMoment::kAsked);
    return EndMoment(moment);
  }
  ExitMoment none = ExitMoment::kNone;
  if (!moment.compare_exchange_strong(none, ExitMoment::kAsked, std::memory_order_acq_rel)) return;
  if (ExporterServes(process.location.folder, process.options.out, process.out_id)) {
    NotifyExporter(process.location);
    constexpr int64_t kMaxWaitNs = 50'000'000;
    const int64_t end_ns = KernelNs() + kMaxWaitNs;
    ExporterProgress progress;
    for (int64_t left_ns = kMaxWaitNs; left_ns > 0; left_ns = end_ns - KernelNs()) {
      constexpr timespec pause = {0, ExporterProgress::kBetweenLooksNs};
      RawSyscall(SYS_futex, &moment, FUTEX_WAIT, static_cast<uint32_t>(ExitMoment::kAsked), &pause, 0, 0);
      if (moment.load(std::memory_order_acquire) != ExitMoment::kAsked) break;
      if (IsExporterStalled(*table, &progress)) break;
    }
  }
  EndMoment(moment);
}

// Waits until `holdfast run --leak-check` has searched our memory: at most a minute. Gives up if that process has ended, or
// does not respond because it does not see our table.
static void AwaitLeakCheck(TableHeader& head) {
  const int checker = process.options.leak_checker;
  if (checker == 0) return;
  LeakCheckState none = LeakCheckState::kNone;
  head.leak_check.compare_exchange_strong(none, LeakCheckState::kAsked, std::memory_order_acq_rel);
  NotifyExporter(process.location);
  constexpr int64_t kMaxNs = 60'000'000'000, kMaxUnansweredNs = 10'000'000'000;
  constexpr timespec kStep = {0, 100'000'000};
  const int64_t start_ns = KernelNs();
  while (true) {
    const LeakCheckState state = head.leak_check.load(std::memory_order_acquire);
    const int64_t most_ns = state == LeakCheckState::kAsked ? kMaxUnansweredNs : kMaxNs;
    if (state == LeakCheckState::kDone || KernelNs() - start_ns >= most_ns ||
        RawSyscall(SYS_tgkill, checker, checker, 0) == -ESRCH)
      return;
    RawSyscall(SYS_futex, &head.leak_check, FUTEX_WAIT, static_cast<uint32_t>(state), &kStep, 0, 0);
  }
}

void AwaitLastProfile() {
  if (!OwnState()) return;
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;
  const bool silent = no_system_calls.load(std::memory_order_relaxed);
  if (!silent && InBorrowedMemory()) return;
  TableHeader& head = *table->header();
  // Later readers of the table need this, too.
  SettleLocks();
  LookAtFreeCallsMuted();
  // Whoever stopped the program's whole group of processes may have stopped the exporter, too.
  if (silent) return;
  // Somebody has waited: before the exit handlers, or at_quick_exit and then _exit.
  const bool was_asked = head.exit_request.load(std::memory_order_relaxed) != 0;
  if (was_asked && (head.exported.load(std::memory_order_acquire) != 0 || awaiting.load() == 0)) return;
  AwaitLeakCheck(head);
  AwaitProfile(*table, ExitMoment::kNone);
}

}  // namespace holdfast
