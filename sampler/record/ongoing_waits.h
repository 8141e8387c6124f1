// Waits in progress, for readers outside: OngoingWait in sampler/contract/layout.h.
//
//     BeginWait ─► BeginOngoing     thread, lock, start, caller; the holder, if the lock names it
//     Capture   ─► NoteOngoing      the row of its stack
//     EndWait   ─► EndOngoing       before anything of the wait is added to a row: a reader that finds the wait here after
//                                   it has read the rows has not seen it there
//
// Any thread, also in a signal handler; lock-free. In a cache line of the thread's own.
// Full (4,096 threads wait at once, or the table does not grow): counted as kOngoingFull, and the wait is seen once it
// is over.
#ifndef HOLDFAST_SAMPLER_RECORD_ONGOING_WAITS_H_
#define HOLDFAST_SAMPLER_RECORD_ONGOING_WAITS_H_

#include "sampler/record/wait_internal.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// For the thread's innermost wait, after MakeCurrent. `mutex`: for a condition's waiter, else null.
void BeginOngoing(SharedTable* table, ThreadState& thread, const CallerRegisters& caller, const void* mutex,
                  WaitState* wait);
// Call when its row is known, its start was corrected, or the holder should be read again.
void NoteOngoing(SharedTable* table, const WaitState& wait);
void NoteRow(SharedTable* table, const WaitState& wait);  // only that it is known
void EndOngoing(const WaitState& wait, int64_t end_ns, bool acquired);
// Ends a wait that this thread left by a jump: `wait` is its former address. Returns its row; 0: not known.
Offset DropOngoing(SharedTable* table, const ThreadState& thread, const void* wait);
// Ends the waits of a dead thread. Returns the row of one of them; 0: not known.
Offset DropOngoingOf(SharedTable* table, int thread_id);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_ONGOING_WAITS_H_
