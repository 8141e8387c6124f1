#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/enter.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/record/heap.h"

namespace holdfast {

namespace {

HOLDFAST_COLD void MakeTableBeforeFork() {
  ThreadState& thread = thread_state;
  if (!no_system_calls.load(std::memory_order_relaxed) && !InBorrowedMemory() && EnterSlow(thread))
    GetTableMuted(thread);
}

}  // namespace

void BeforeFork() {
  if (!process.recording.load(std::memory_order_relaxed)) return;
  // PID 1 alone can start an exporter that nobody notices. Its workers may need one before its own first sample.
  if (UNLIKELY(process.pid == 1) && CurrentTable() == nullptr) MakeTableBeforeFork();
  const uint64_t number = process.forks.fetch_add(1, std::memory_order_relaxed) + 1;
  thread_state.random += number * 0x9fb21c651e98df25;  // also where several threads fork at the same time
  DrawHeapGapAnew();
}

void InForkedChild() {
  if (ownership == nullptr) return;
  MarkForkedChild(no_system_calls.load(std::memory_order_relaxed) ? 0 : static_cast<int>(RawSyscall(SYS_getpid)));
  // A child that only computes enters no slow path: it gets its timer now.
  if (UNLIKELY(HasCpuTimers()) && !no_system_calls.load(std::memory_order_relaxed)) EnterSlow(thread_state);
}

void AfterFork() {
  if (process.recording.load(std::memory_order_relaxed)) DrawHeapGapAnew();
}

}  // namespace holdfast
