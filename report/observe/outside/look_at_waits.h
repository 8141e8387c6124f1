// Finds out which threads wait for which, now: reads the holders of the locks that a snapshot's threads wait for from
// the running process's memory, and finds threads that wait for each other.
//
//    pthread mutex      __owner; for robust and priority-inheriting ones the lock word, which the kernel also updates
//    reader-writer      __cur_writer; for readers only their number
//    join               the futex in which the waiter sleeps leads to the joined thread
//    of musl            the lock word, which a normal mutex and a writer do not sign
//    condition          no holder; but a signalled waiter that sleeps for its mutex waits for the mutex's owner
//    futex and others   the lock has no holder; use the thread that got it last after a wait
//
// Stops nothing and writes nothing. If the kernel does not permit reading (another user's process, ptrace_scope), or
// the process has ended, the holder is the one that the waiter found when the wait began, and `cannot_look` says why.
#ifndef HOLDFAST_REPORT_OBSERVE_OUTSIDE_LOOK_AT_WAITS_H_
#define HOLDFAST_REPORT_OBSERVE_OUTSIDE_LOOK_AT_WAITS_H_

#include "report/observe/table/snapshot.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

// Sets the members of OngoingWaitInfo reserved for this function, `threads`, `deadlocks`, `cannot_look`, and the frames
// that contain locks. Drops waits of threads that have ended. `others`: for how many threads that do not wait to report
// what they do.
void LookAtWaits(const TableFile& table, Snapshot* snapshot, size_t others = 0);

// Finds locks that are local variables: sets LockInfo::block_offset and block_stack for locks that are in no block and
// no module, but in a function's frame. Works while the thread sleeps: its stack is walked from outside
// (outside_stack.h), and a frame that contains the lock's address is proof. Reports nothing for a running thread, or if
// the walk does not reach the stack's end. Called by LookAtWaits.
void FindLocksOnStacks(const TableFile& table, Snapshot* snapshot);

// Counts threads that sleep in OpenMP's runtime or in libc's internal locks, which are not in the table: sets
// Snapshot::unseen_waits. Examines at most 64 threads. Called by LookAtWaits.
void FindUnseenWaits(const TableFile& table, Snapshot* snapshot);

// The state of a lock, from its bytes and the kind of the wait. For LookAtWaits and tests.
struct LockState {
  uint32_t owner = 0;  // thread id; 0: none
  uint32_t readers = 0;
  bool owner_died = false;
};
inline constexpr size_t kLockBytes = 56;  // size of the largest, pthread_rwlock_t
LockState StateOfLock(WaitKind kind, const char (&bytes)[kLockBytes], bool is_musl = false);

// Returns the cycles of threads that wait for each other. waits_for[i] is the thread that thread i waits for (kNoIndex:
// none). Each cycle is returned once.
std::vector<std::vector<uint32_t>> CirclesOf(const std::vector<uint32_t>& waits_for);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_OUTSIDE_LOOK_AT_WAITS_H_
