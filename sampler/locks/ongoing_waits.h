// Waits that go on, where a reader from outside sees them: OngoingWait in sampler/contract/layout.h.
//
//     BeginWait ─► BeginOngoing     who waits, for what, since when, who calls; who has the lock, if it says so
//     Capture   ─► NoteOngoing      the row of its stack
//     EndWait   ─► EndOngoing       before anything of the wait is added to a row: who finds the wait here after having
//                                   read the rows has not seen it there
//
// Any thread, also in a signal handler; lock-free. In a cache line of the thread's own; what it costs: docs/stuck.md. Full (4,096
// threads wait at once, or the table does not grow): counted as kOngoingFull, and the wait is seen once it is over.
#ifndef HOLDFAST_SAMPLER_LOCKS_ONGOING_WAITS_H_
#define HOLDFAST_SAMPLER_LOCKS_ONGOING_WAITS_H_

#include "sampler/locks/wait_internal.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// Of the thread's innermost wait, after MakeCurrent. `mutex`: of a condition's waiter, else null.
void BeginOngoing(SharedTable* recorded, ThreadState& thread, const CallerRegisters& caller, const void* mutex,
                  WaitState* wait);
// Its row is known, its start was put right, or it is worth another look who has the lock.
void NoteOngoing(SharedTable* recorded, const WaitState& wait);
void NoteRow(SharedTable* recorded, const WaitState& wait);  // that it is known, and nothing else
void EndOngoing(const WaitState& wait, int64_t end_ns, bool acquired);
// Ends a wait that this thread left by a jump: `wait` is where the wait lay. Returns its row; 0: not known.
Offset DropOngoing(SharedTable* recorded, const ThreadState& thread, const void* wait);
// Ends the waits of a thread that is gone. Returns the row of one of them; 0: not known.
Offset DropOngoingOf(SharedTable* recorded, int thread_id);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_LOCKS_ONGOING_WAITS_H_
