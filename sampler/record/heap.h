// The heap, as the wrappers (interpose/) see it: decide, then record.
//
//     malloc:  if (LIKELY(!ChargeHeap(n))) return real(n);          // the hot path, whole
//              if (!HeapEventDue(n)) return real(n);                // slow: draw the next gap
//              block = real(n); RecordAlloc(caller, block, n);
//     free:    if (LIKELY(!PassesTag(p))) return real(p);           // the hot path, whole
//              if (PassesFilter(p)) RecordFree(p);                  // before the real free
//              real(p);
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork; none
// allocates, waits long for a lock, prints, or changes errno. What cannot be recorded is counted.
#ifndef HOLDFAST_SAMPLER_RECORD_HEAP_H_
#define HOLDFAST_SAMPLER_RECORD_HEAP_H_

#include <cstddef>

#include "sampler/arch/processor.h"
#include "sampler/contract/poisson_sampler.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/record/live_table.h"

namespace holdfast {

// The slow path of ChargeHeap, to be called when it returned true. Returns whether this allocation is to be sampled.
bool HeapEventDue(size_t bytes);
// Records a sampled block. Must come before the program learns the address. Does nothing if `block` is null (the
// allocation failed).
void RecordAlloc(const CallerRegisters& caller, void* block, size_t bytes);

// Makes a block's sample, if it has one, unreachable; call RecordFree or PutBackSample afterwards.
TakenLive TakeSample(const void* block);
// `reallocated`: by a realloc.
void RecordFree(const TakenLive& taken, const void* block, bool reallocated = false);
void PutBackSample(const TakenLive& taken, const void* block);
// The block was just returned by an allocation, and still has a sample: removes that one.
void RecordUnseenFree(const void* block);
inline void RecordFree(const void* block) {
  const TakenLive taken = TakeSample(block);
  if (taken.sampled()) RecordFree(taken, block);
}

// Removes all samples, and counts their blocks as freed, without ages. Call when frees may have been missed.
void ForgetSamples();

// Starts a new gap at the current position.
inline void BeginGap(ThreadState& thread, Gap gap) {
  thread.heap_countdown = thread.heap_gap = gap.length;
  thread.heap_gap_is_event = gap.is_event;
}
// Draws the distance to this thread's next sample anew. A Poisson process has no memory, so any moment is right.
void DrawHeapGapAnew();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_HEAP_H_
