// Waits for the locks of an allocator that is linked into the executable. They are not the program's: glibc's own, and
// those of an allocator in a library, are not counted either.
//
//     main ─► malloc ─► arena_get ─► malloc_mutex_lock_slow ─► pthread_mutex_lock      not counted
//               ▲ its stack passes through a redirected entry, or a function that one jumps to
//
// Only waits are looked at, never an uncontended lock: the walk of a stack takes about 1 µs, and most call sites of the
// program are known after the first one.
#ifndef HOLDFAST_SAMPLER_RECORD_ALLOCATOR_WAITS_H_
#define HOLDFAST_SAMPLER_RECORD_ALLOCATOR_WAITS_H_

#include <atomic>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"
#include "sampler/contract/code_range.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// How many ranges are known; 0: no allocator is linked in.
extern HOLDFAST_HIDDEN std::atomic<int> allocator_range_count;

// Sets the entries and what they jump to, sorted. Call once, while there is one thread.
void SetAllocatorCode(const CodeRange* ranges, int count);

// Whether the allocator made this call of a lock function.
bool IsCalledByAllocatorSlow(SharedTable* table, ThreadState& thread, const CallerRegisters& caller);
inline bool IsCalledByAllocator(SharedTable* table, ThreadState& thread, const CallerRegisters& caller) {
  return UNLIKELY(allocator_range_count.load(std::memory_order_relaxed) != 0) &&
         IsCalledByAllocatorSlow(table, thread, caller);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_ALLOCATOR_WAITS_H_
