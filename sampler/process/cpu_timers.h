// A CPU timer for each thread, and the signal that it sends: 32, which belongs to glibc's pthread_cancel. No program can
// block it, wait for it or replace its handler through libc. sampler/contract/cpu_sampling.h says where that is safe.
//
//     HOLDFAST_CPU, or `set PID cpu=` ──► cpu_changes ──► each thread, at its start or next slow path: its own timer
//     the thread has run for an interval ──► signal 32 ──► CpuSampler     on the interrupted stack
//     pthread_cancel ──► signal 32 ──► glibc's handler                    with the program's signal mask
//
// The handler stays installed once it was: the signal's default action ends the process, and a signal may still be on
// its way when its timer is gone. A thread of a program's own clone that never calls us has no timer: its thread-local
// memory may be anybody's.
//
// Off: one comparison in each slow path. Any thread, signal handlers, children of fork and vfork; nothing allocates or
// changes errno.
#ifndef HOLDFAST_SAMPLER_PROCESS_CPU_TIMERS_H_
#define HOLDFAST_SAMPLER_PROCESS_CPU_TIMERS_H_

#include <signal.h>

#include <atomic>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// A timer's report: the interrupted code (`pc` is one further, as StackTrace has it), and the CPU time since the
// thread's last sample.
struct CpuTick {
  CallerRegisters at;
  uint64_t intervals;
  uint64_t interval_ns;
  bool on_another_stack;  // the handler is not on the stack of `at`
  uintptr_t function;     // 0; at the end of a thread: the function that it ran, which has returned
  uint32_t thread;        // 0; at the end of the process: the thread. Only its first function is known
};
using CpuSampler = void (*)(const CpuTick&);

// Grows with each change of the interval. 0: never switched on.
extern HOLDFAST_HIDDEN std::atomic<uint8_t> cpu_changes;
// CpuSampling::interval_count that this process has applied.
extern HOLDFAST_HIDDEN std::atomic<uint32_t> cpu_applied;

// Call once, when the library is ready: switches on what the options request. `sampler` runs in the handler, with all
// signals blocked.
void BeginCpuTimers(CpuSampler sampler);

// Whether to wait while another thread changes timers: with 1,000 threads some milliseconds. A thread that begins has no
// other chance if it only computes; others ask again in their next slow path.
enum class WhileOthersChange : bool { kComeBack, kWait };
HOLDFAST_COLD void SeeCpuSlow(ThreadState& thread, WhileOthersChange what);
// Every slow path calls it: gives this thread a timer or another interval, if that is due.
inline void SeeCpu(ThreadState& thread, WhileOthersChange what = WhileOthersChange::kComeBack) {
  SharedTable* const made = CurrentTable();
  const bool is_changed = made != nullptr && made->header()->cpu.interval_count.load(std::memory_order_relaxed) !=
                                                 cpu_applied.load(std::memory_order_relaxed);
  if (UNLIKELY(is_changed) || UNLIKELY(thread.cpu_seen != cpu_changes.load(std::memory_order_relaxed)))
    SeeCpuSlow(thread, what);
}

// Whether a timer may send its signal, now or later.
inline bool HasCpuTimers() { return cpu_changes.load(std::memory_order_relaxed) != 0; }
// The calling thread is about to end. The kernel checks its timer only a few hundred times a second, so most threads that
// live for a millisecond never get a signal: what they have used since the last one is reported now. `function`: that
// the thread ran; null: not known.
HOLDFAST_COLD void EndCpuTimer(const CallerRegisters& caller, const void* function);
// The process is about to end: reports what the calling thread has used since its last signal. `of_all`: all other threads,
// too, and ends their timers.
HOLDFAST_COLD void ReportCpuRestSlow(const CallerRegisters& caller, bool of_all);
inline void ReportCpuRest(const CallerRegisters& caller, bool of_all) {
  if (UNLIKELY(HasCpuTimers())) ReportCpuRestSlow(caller, of_all);
}
// The program has made a timer that sends the process a signal. If `clock` is a CPU clock, samples end: the kernel looks at
// all CPU timers at the same tick. Our action blocks the program's signal, so the kernel would give it to another thread:
// a call of that thread would fail with EINTR.
HOLDFAST_COLD void NoteTimerOfProgram(int clock);
// A seccomp filter is about to be installed, which may kill the process when a handler returns. Waits, at most about
// 100 ms, until no thread is in the handler.
void EndCpuTimers();
// The filter was refused.
void ResumeCpuTimers();
// For a child of fork, which has no timers. `interval_ns`: requested of its parent.
void ForgetCpuTimers(uint64_t interval_ns);
// This process has made its table: reports there what happened before.
void NoteCpu(SharedTable* made);

// glibc installs its own handler with the first pthread_cancel. Call after it.
void RestoreCpuHandlerSlow();
inline void RestoreCpuHandler() {
  if (UNLIKELY(HasCpuTimers())) RestoreCpuHandlerSlow();
}

// Alternate stacks of signals. If a second signal frame does not fit there, the kernel kills the process. So a thread
// with an alternate stack too small for two frames has no timer, and a handler of the program may use the rest of a larger
// one: signal 32 waits until the handler returns or jumps out.
//
// Whether the calling thread may have a timer with an alternate stack of this size. 0: it has none.
bool MayHaveTimer(uint64_t alternate_stack_bytes);
// Call before such a stack is installed, if it is too small; and after another one was installed, or none.
void LeaveCpuTimer();
HOLDFAST_COLD void AskForCpuTimer();

class AlternateStackMask {
 public:
  static constexpr uint64_t kBit = uint64_t{1} << (32 - 1);  // in the kernel's signal mask
  // Returns the mask to install with these flags for a handler of `signal`; remembers if the program's own had the bit.
  static uint64_t ForKernel(int signal, int flags, uint64_t mask);
  // Returns what the program is to see of a mask that the kernel has. `had_bit`: HadBit when that mask was installed.
  static uint64_t ForProgram(bool had_bit, uint64_t mask) { return had_bit ? mask : mask & ~kBit; }
  static bool HadBit(int signal);
  // The calling thread has set this alternate stack, and the kernel has accepted it. While a handler runs on a stack that
  // disarms itself (SS_AUTODISARM), the kernel does not tell where it is.
  HOLDFAST_COLD static void NoteStack(const stack_t& stack);
  // The program jumps to a frame at `stack_pointer` (0: not known) without restoring its mask. If it leaves the alternate
  // stack, the signal is allowed again; within it, the stack may have no room for another signal.
  HOLDFAST_COLD static void LeaveByJump(uintptr_t stack_pointer);
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_CPU_TIMERS_H_
