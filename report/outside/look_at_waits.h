// Who waits for whom, now: asks the locks that a snapshot's threads wait for who holds them, in the memory of the running
// process, and finds those that wait for each other.
//
//     pthread mutex      __owner; of robust and priority-inheriting ones the lock word, where the kernel keeps it too
//     reader-writer      __cur_writer; of readers only how many they are
//     join               the futex that the waiter sleeps in names the thread that it waits for
//     condition          nobody; but a waiter that was signalled and sleeps for its mutex waits for that one's owner
//     futex and others   not kept in the lock: who got it last after a wait for it
//
// Nothing is stopped, and nothing written. Where the kernel does not let us look (another user's, ptrace_scope), or the
// process is gone, the owner counts that the waiter found when it began to wait, and `cannot_look` says why.
#ifndef HOLDFAST_REPORT_OUTSIDE_LOOK_AT_WAITS_H_
#define HOLDFAST_REPORT_OUTSIDE_LOOK_AT_WAITS_H_

#include "report/table/snapshot.h"
#include "report/table/table_folder.h"

namespace holdfast {

// Fills what OngoingWaitInfo leaves to it, `threads`, `deadlocks`, `cannot_look`, and which frames locks lie in. Waits of threads that are gone are left out.
// `others`: also of so many threads that wait for nothing that is known what they do.
void LookAtWaits(const TableFile& table, Snapshot* snapshot, size_t others = 0);

// Locks that are local variables: fills LockInfo::block_offset and block_stack of locks that lie in no block and no module, but in the
// frame of a function. Known while its thread sleeps: its stack is walked from outside (outside_stack.h), and a frame that holds the
// lock's address is the proof. Of a thread that runs, or whose stack's end cannot be reached, nothing is said. Called by LookAtWaits.
void FindLocksOnStacks(const TableFile& table, Snapshot* snapshot);

// Counts threads that sleep in OpenMP's runtime or in libc's own locks, which are not in the table: fills Snapshot::unseen_waits. Looks
// at 64 threads at most. Called by LookAtWaits.
void FindUnseenWaits(const TableFile& table, Snapshot* snapshot);

// What the bytes of a lock say, of `kind` as it is waited for. For LookAtWaits, and tests.
struct LockState {
  uint32_t owner = 0;  // thread id; 0: none
  uint32_t readers = 0;
  bool owner_died = false;
};
inline constexpr size_t kLockBytes = 56;  // of the larger one: pthread_rwlock_t
LockState StateOfLock(WaitKind kind, const char (&bytes)[kLockBytes]);

// Threads that wait for each other, by who waits for whom (kNoIndex: for nobody); each circle once.
std::vector<std::vector<uint32_t>> CirclesOf(const std::vector<uint32_t>& waits_for);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OUTSIDE_LOOK_AT_WAITS_H_
