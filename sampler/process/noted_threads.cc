#include "sampler/process/noted_threads.h"

#include "sampler/capture/sample_stack.h"
#include "sampler/contract/clock.h"

namespace holdfast {

HOLDFAST_COLD void NoteThreadSlow(SharedTable* table, ThreadState& thread, const Row* row, int64_t now_ns) {
  thread.noted = true;
  // If walks are remembered, no other sample checks whether another thread has changed the name.
  SeeThreadNameIfWanted(thread);
  const auto id = static_cast<uint32_t>(ThreadId());
  if (id == 0) return;
  NotedThread& place = table->header()->noted_threads[id % kNotedThreads];
  // A reader that finds one thread's id with another's time takes it, at worst, for an exited thread.
  place.who.store(0, std::memory_order_relaxed);
  place.when_ns.store(now_ns != 0 ? now_ns : MonotonicNs(), std::memory_order_relaxed);
  place.who.store(uint64_t{table->OffsetOf(row)} << kNotedRowShift | id, std::memory_order_release);
}

}  // namespace holdfast
