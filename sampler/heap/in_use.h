// Bytes in use, now and at most.
//
// At intervals above 1 one atomic word is enough, because samples are rare. When every allocation is recorded, each
// thread subtracts allocations from its own `room` (two instructions) and adds its frees (one instruction). Its room
// ends where more might be in use than ever before:
//
//     in use = Σ (limit − room)   ≤   Σ limit   ≤   highest        so nothing is missed as long as no thread runs out of room
//
// A thread without room adds up what all threads have in use, raises `highest` to that, and raises its own limit. A
// single thread raises it to `highest`, so the maximum is exact, to the byte. One of several raises it by its share of
// the rest, or by highest / (kHeightParts · threads), so all of them together miss at most one part in kHeightParts.
//
// Any thread, signal handlers; lock-free.
#ifndef HOLDFAST_SAMPLER_HEAP_IN_USE_H_
#define HOLDFAST_SAMPLER_HEAP_IN_USE_H_

#include "sampler/arch/processor.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// Call when the thread of this line has no room left.
void SeeHeight(SharedTable* table, uint32_t owner);
// Call when more is in use than ever before.
void NoteHighestSlow(HeapInUse* in_use, uint64_t now);

// For a thread that owns rows, on the short path. `amount`: in kAmountFractionBits, here and below.
HOLDFAST_HOT inline void AddOwnInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  if (UNLIKELY(BorrowsAsOwner(&table->header()->in_use_of[thread.owner].room, amount))) SeeHeight(table, thread.owner);
}
HOLDFAST_HOT inline void TakeOwnInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  AddAsOwner(&table->header()->in_use_of[thread.owner].room, amount);
}

// For any thread.
void AddInUse(SharedTable* table, const ThreadState& thread, uint64_t amount);
void TakeInUse(SharedTable* table, const ThreadState& thread, uint64_t amount);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HEAP_IN_USE_H_
