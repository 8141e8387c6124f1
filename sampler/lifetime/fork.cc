#include "sampler/contract/syscalls.h"
#include "sampler/heap/heap.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/enter.h"
#include "sampler/process/process.h"

namespace holdfast {

void BeforeFork() {
  if (!process.recording.load(std::memory_order_relaxed)) return;
  const uint64_t number = process.forks.fetch_add(1, std::memory_order_relaxed) + 1;
  thread_state.random += number * 0x9fb21c651e98df25;  // also where several threads fork at the same time
  DrawHeapGapAnew();
}

void InForkedChild() {
  if (ownership == nullptr) return;
  MarkForkedChild(no_system_calls.load(std::memory_order_relaxed) ? 0 : static_cast<int>(RawSyscall(SYS_getpid)));
}

void AfterFork() {
  if (process.recording.load(std::memory_order_relaxed)) DrawHeapGapAnew();
}

}  // namespace holdfast
