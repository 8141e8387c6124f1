// How much the heap has in use, and had at most.
//
// At intervals above 1 one atomic word is enough, as samples are rare. Where every allocation is recorded each thread takes what it
// allocates from a `room` of its own, two instructions of an allocation, and adds what it frees, one instruction. Its room ends where
// more might be in use than ever before:
//
//     in use = Σ (limit − room)   ≤   Σ limit   ≤   highest        so nothing is missed as long as no thread runs out of room
//
// A thread that has run out adds up what all have in use, raises `highest` to that, and raises its own limit: one that is alone up to
// `highest`, so that the height is exact, to the byte; one of several by its share of what is left of it, or by
// highest / (kHeightParts · threads), so that all of them together miss at most one part in kHeightParts.
//
// Any thread, signal handlers; lock-free.
#ifndef HOLDFAST_SAMPLER_HEAP_IN_USE_H_
#define HOLDFAST_SAMPLER_HEAP_IN_USE_H_

#include "sampler/arch/processor.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// The thread of this line has run out of room.
void SeeHeight(SharedTable* table, uint32_t owner);
// More is in use than ever before.
void NoteHighestSlow(HeapInUse* in_use, uint64_t now);

// Of a thread that owns rows, by the short way. `amount`: in kAmountFractionBits, here and below.
HOLDFAST_HOT inline void AddOwnInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  if (UNLIKELY(BorrowsAsOwner(&table->header()->in_use_of[thread.owner].room, amount))) SeeHeight(table, thread.owner);
}
HOLDFAST_HOT inline void TakeOwnInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  AddAsOwner(&table->header()->in_use_of[thread.owner].room, amount);
}

// Of any thread.
void AddInUse(SharedTable* table, const ThreadState& thread, uint64_t amount);
void TakeInUse(SharedTable* table, const ThreadState& thread, uint64_t amount);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HEAP_IN_USE_H_
