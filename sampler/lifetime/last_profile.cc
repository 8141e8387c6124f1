#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <time.h>

#include "sampler/capture/little_stack.h"
#include "sampler/capture/module_table.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/exporter_progress.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/enter.h"
#include "sampler/process/exporter_watch.h"
#include "sampler/process/process.h"
#include "sampler/process/small_process.h"
#include "sampler/record/before_next_change.h"
#include "sampler/record/exact.h"
#include "sampler/record/holds.h"

namespace holdfast {

int SnapshotSignal() { return process.recording.load(std::memory_order_relaxed) ? process.options.signal : 0; }

void RequestSnapshot() {
  if (!OwnStateWithNews()) return;
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;
  ShowTable();
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

// Waits for the exporter's answer in a futex word, and looks at the exporter in between.
class AnswerWait {
 public:
  explicit AnswerWait(SharedTable& table) : table_(table) {}

  // Waits at most `most_ns` while `word` is `value`.
  void Wait(const void* word, uint32_t value, int64_t most_ns = kLongestNs) const {
    const timespec pause = {0, pause_ns_ < most_ns ? pause_ns_ : most_ns};
    RawSyscall(SYS_futex, word, FUTEX_WAIT, value, &pause, 0, 0);
  }
  // True: no answer will come. An exporter that runs, or waits for a processor, is looked at less and less often: each look
  // is about 20 system calls.
  bool IsStalled() {
    const bool stalled = progress_.IsStalled(process.location.folder, process.options.out, process.out_id,
                                             table_.header()->exporter_pid.load(std::memory_order_relaxed));
    pause_ns_ = progress_.state() != 'R' ? ExporterProgress::kBetweenLooksNs
                : pause_ns_ < kLongestNs ? 2 * pause_ns_
                                         : kLongestNs;
    return stalled;
  }

 private:
  static constexpr int64_t kLongestNs = 8 * ExporterProgress::kBetweenLooksNs;

  SharedTable& table_;
  ExporterProgress progress_;
  int64_t pause_ns_ = ExporterProgress::kBetweenLooksNs;
};

// Threads that wait in AwaitProfile. A signal handler or another thread may end the process meanwhile: it waits, too.
static constinit std::atomic<int> awaiting{0};

// Asks for the last profile, and waits for it. `moment`: what the profile shows.
static void AskAndAwait(SharedTable& table, ExitMoment moment) {
  TableHeader& head = *table.header();
  if (moment != ExitMoment::kNone) SettleLocks();  // as AwaitLastProfile has done
  // An exporter that serves this table has noted itself there. Whether it is still alive is checked if no answer comes.
  bool is_checked = process.exporter[0] == '\0' || head.exporter_pid.load(std::memory_order_relaxed) == 0;
  const bool is_served = !is_checked || StartExporter();
  // Just before the request, without which the exporter would copy the table for a later profile.
  ExitMoment none = ExitMoment::kNone;
  head.exit_moment.compare_exchange_strong(none, moment, std::memory_order_acq_rel);
  // Also where nobody answers: the file's time then says when this was.
  head.exit_request.store(1, std::memory_order_release);
  NotifyExporter(process.location);
  if (!is_served) return;
  // A server that forks a child for each request has a limit of children, and counts ended ones that wait for a slow exporter.
  constexpr int64_t kMaxNs = 2'000'000'000, kMaxOfChildNs = 100'000'000;
  const int64_t most_ns = process.forked && process.pid != 1 ? kMaxOfChildNs : kMaxNs;  // the exporter ends with PID 1
  // The lock may be free for a moment: an exporter that gives it up looks for tables once more. Free twice: nobody answers.
  int steps_unserved = 0;
  // One that is stopped or frozen holds the lock. It writes the profile once it goes on: the table stays.
  AnswerWait wait(table);
  const int64_t start_ns = KernelNs();
  for (int64_t waited_ns = 0; waited_ns < most_ns && steps_unserved < 2; waited_ns = KernelNs() - start_ns) {
    wait.Wait(&head.exported, 0, most_ns - waited_ns);
    if (head.exported.load(std::memory_order_acquire) != 0) return;
    if (ExporterIsAlive(waited_ns)) {
      steps_unserved = 0;
    } else if (!is_checked) {
      is_checked = true;
      if (!StartExporter()) return;
    } else {
      ++steps_unserved;
    }
    if (wait.IsStalled()) return;
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

// Whether to wait for the last profile before the exit handlers if other threads run. The handlers destroy objects that
// those threads still use: a program that has only microseconds for such a crash must not get milliseconds. With the end of
// PID 1 the exporter ends, too, and a leak check needs the state after the handlers.
static bool WaitsBeforeExitHandlers() { return process.options.leak_checker == 0 && RawSyscall(SYS_getpid) != 1; }

// A state that no exporter has seen by now is not from before the exit handlers.
static void EndMoment(std::atomic<ExitMoment>& moment) {
  ExitMoment asked = ExitMoment::kAsked;
  moment.compare_exchange_strong(asked, ExitMoment::kMissed, std::memory_order_acq_rel);
}

// Waits, if the moment is asked for, until the exporter has copied the table or will not.
static void AwaitCopy(SharedTable& table) {
  std::atomic<ExitMoment>& moment = table.header()->exit_moment;
  if (moment.load(std::memory_order_acquire) != ExitMoment::kAsked) return;
  if (ExporterServes(process.location.folder, process.options.out, process.out_id)) {
    NotifyExporter(process.location);
    constexpr int64_t kMaxWaitNs = 50'000'000;
    const int64_t end_ns = KernelNs() + kMaxWaitNs;
    AnswerWait wait(table);
    for (int64_t left_ns = kMaxWaitNs; left_ns > 0; left_ns = end_ns - KernelNs()) {
      wait.Wait(&moment, static_cast<uint32_t>(ExitMoment::kAsked), left_ns);
      if (moment.load(std::memory_order_acquire) != ExitMoment::kAsked) break;
      if (wait.IsStalled()) break;
    }
  }
  EndMoment(moment);
}

// See before_next_change. The exporter copies the table here, or has made the last profile; either shows the state before
// the change. In a child that was forked meanwhile there is another table, or none, and nothing to wait for.
static void AwaitCopyBeforeChange() {
  if (SharedTable* table = OwnState() ? CurrentTable() : nullptr) {
    if (no_system_calls.load(std::memory_order_relaxed) || LittleStackLeft(kStackForCapture)) {
      EndMoment(table->header()->exit_moment);
    } else {
      AwaitCopy(*table);
    }
  }
  before_next_change.store(nullptr, std::memory_order_relaxed);
}

void BeforeExitHandlers(bool process_ends) {
  if (!OwnStateWithNews()) return;
  // With other threads, the profile that is made here is the last one. (Behind a filter nothing may be asked.)
  if (UNLIKELY(HasCpuTimers()) && !no_system_calls.load(std::memory_order_relaxed))
    ReportCpuRest(HOLDFAST_CALLER(), process_ends && WaitsBeforeExitHandlers());
  SharedTable* table = CurrentTable();
  if (table == nullptr || no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return;
  if (UNLIKELY(TableIsHidden())) {
    ShowTableIfDue(table);
    if (TableIsHidden()) return;
  }
  LookAtFreeCallsMuted();
  std::atomic<ExitMoment>& moment = table->header()->exit_moment;
  if (moment.load(std::memory_order_relaxed) != ExitMoment::kNone) return;
  const bool has_other_threads = HasOtherThreads();
  if (process_ends && has_other_threads && WaitsBeforeExitHandlers()) {
    AwaitProfile(*table, ExitMoment::kAsked);
    return EndMoment(moment);
  }
  // Most short programs change nothing sampled in their exit handlers: the last profile is then this moment's. A block that
  // the shadow map knows is freed without a look at before_next_change.
  const bool may_wait_later = process_ends && !has_other_threads && !ExactBegun();
  if (may_wait_later) before_next_change.store(AwaitCopyBeforeChange, std::memory_order_relaxed);
  ExitMoment none = ExitMoment::kNone;
  moment.compare_exchange_strong(none, ExitMoment::kAsked, std::memory_order_acq_rel);
  if (!may_wait_later) AwaitCopy(*table);
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
  if (!OwnStateWithNews()) return;
  ReportCpuRest(HOLDFAST_CALLER(), true);
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;
  const bool silent = no_system_calls.load(std::memory_order_relaxed);
  if (!silent && (InBorrowedMemory() || DropTableIfSmall(table))) return;
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
