// How much the heap has in use, and had at most.
//
// At intervals above 1 one atomic word is enough, as samples are rare. Where every allocation is recorded each thread takes what it
// allocates from a `room` of its own, two instructions of an allocation, and adds what it frees, one instruction:
//
//     in use = Σ (limit − room)   ≤   Σ limit   ≤   limits       the word `limits` is raised before a limit, and lowered after it
//
// A thread without room takes more from `limits`. While that is at most `highest`, no height can be missed and nothing else is looked at.
// Above it the thread adds up what all have in use, and raises `highest` if that is more. So the height lies between `highest` and the most
// that `limits` ever was, `most`: an error that is recorded as it really was.
//
//     one thread        its limit is `highest`, so both are equal: the height is exact, to the byte
//     several threads   each takes highest / (kHeightParts · threads) at a time, and gives back what it has freed beyond that (GiveBackRoom)
//                       at its next sample that is timed, at the free of another thread's block, before it waits, and at its end
//
// Any thread, signal handlers; lock-free.
#ifndef HOLDFAST_SAMPLER_TABLE_IN_USE_H_
#define HOLDFAST_SAMPLER_TABLE_IN_USE_H_

#include "sampler/arch/processor.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// Gives the thread of this line room, which it has run out of, and notes the height if there is a new one.
void SeeHeight(SharedTable* table, uint32_t owner);
// Notes the height of a heap that one word counts.
void NoteHighestSlow(HeapInUse* in_use, uint64_t now);

// The room that a thread keeps: a full share, or nothing when the thread ends.
enum class Keep { kShare, kNothing };
// For a thread that may not allocate for some time. Others may then use its room, and the height has a smaller error.
void GiveBackRoom(SharedTable* table, const ThreadState& thread, Keep keep = Keep::kShare);
// For a thread that starts another one: the first thread then has a share of the room instead of all.
void ExpectAnotherThread(SharedTable* table, const ThreadState& thread);

// For a thread that owns rows, by the short path. `amount`: in kAmountFractionBits, here and below.
HOLDFAST_HOT inline void AddOwnInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  if (UNLIKELY(BorrowsAsOwner(&table->header()->in_use_of[thread.owner].room, amount))) SeeHeight(table, thread.owner);
}
HOLDFAST_HOT inline void TakeOwnInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  AddAsOwner(&table->header()->in_use_of[thread.owner].room, amount);
}

// These two may be called for any thread, not only for the caller's own.
void AddInUse(SharedTable* table, const ThreadState& thread, uint64_t amount);
void TakeInUse(SharedTable* table, const ThreadState& thread, uint64_t amount);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_IN_USE_H_
