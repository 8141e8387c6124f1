// Finds out which threads wait for which, now: reads the holders of the locks that a snapshot's threads wait for from
// the running process's memory, and finds threads that wait for each other. Called by Observe (report/observe/observe.h).
//
//    pthread mutex      __owner; for robust and priority-inheriting ones the lock word, which the kernel also updates
//    reader-writer      __cur_writer; for readers only their number
//    join               the futex in which the waiter sleeps leads to the joined thread
//    of musl            the lock word, which a normal mutex and a writer do not sign
//    condition          no holder; but a signalled waiter that sleeps for its mutex waits for the mutex's owner
//    futex and others   the lock has no holder; use the thread that got it last after a wait
//
// Stops nothing and writes nothing. If the kernel does not permit reading (another user's process, ptrace_scope), or
// the process has ended, the holder is the one that the waiter found when the wait began, and `unknown` says why.
#ifndef HOLDFAST_REPORT_OBSERVE_OUTSIDE_LOOK_AT_WAITS_H_
#define HOLDFAST_REPORT_OBSERVE_OUTSIDE_LOOK_AT_WAITS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "report/observe/table/snapshot.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

// A thread that waits, or that holds what others wait for.
struct ThreadInfo {
  uint32_t id = 0;      // as the process sees it
  uint32_t number = 0;  // by age, from 1 for main; 0: unknown
  std::string name;
  uint32_t wait = kNoIndex;  // index into WaitGraph::ongoing: the innermost wait
  bool gone = false;         // the thread has ended and still holds a lock
  bool since_start = false;  // since the thread was created it has waited for something without a holder
  // Set only if the thread holds a lock and does not wait itself.
  bool polls = false;         // it sleeps in a system call that waits for events: epoll, poll, select
  std::string doing;          // "sleeping in clock_nanosleep (hrtimer_nanosleep)"
  uint32_t stack = kNoStack;  // a stack of the state
};

// The symbol or array that contains a lock. Two modules, or two files of one, may have symbols of one name.
struct LockClass {
  std::string name;    // "shards[*].mutex"; "" if unknown
  uint64_t start = 0;  // address of the symbol
  auto operator<=>(const LockClass&) const = default;
};

// Waiters and their holders. Stacks and locks have the table's indices; those found outside the table are added at the end.
struct WaitGraph {
  // Takes what the table says.
  explicit WaitGraph(const TableSnapshot& table)
      : ongoing(table.ongoing), locks(table.locks_known), modules(table.modules), table_stacks(table.stacks.size()) {}

  uint32_t AddStack(StackInfo stack) {
    stacks.push_back(std::move(stack));
    return static_cast<uint32_t>(table_stacks + stacks.size() - 1);
  }

  std::vector<OngoingWaitInfo> ongoing;
  std::vector<LockInfo> locks;
  std::vector<LockClass> lock_classes;  // of each of `locks`; empty if nobody asked
  std::vector<ModuleInfo> modules;      // also those that only /proc/PID/maps lists, once a stack is walked
  size_t table_stacks;
  std::vector<StackInfo> stacks;  // walked from outside: the indices after the table's
  std::vector<ThreadInfo> threads;
  std::vector<std::vector<uint32_t>> deadlocks;  // cycles of threads, each waiting for the next
  std::string unseen;   // threads that wait by other means than libc's functions: "3 in OpenMP, 1 in malloc"
  std::string unknown;  // why the process could not be inspected; "": it could, or it has ended
};

// Sets the members of OngoingWaitInfo reserved for this function, `threads`, `deadlocks`, `unseen`, `unknown`, and the
// frames that contain locks. Drops waits of threads that have ended. `others`: for how many threads that do not wait to
// report what they do.
void LookAtWaits(const TableFile& table, const TableSnapshot& snapshot, size_t others, WaitGraph* state);

// Finds locks that are local variables: sets LockInfo::block_offset and block_stack for locks that are in no block and
// no module, but in a function's frame. Works while the thread sleeps: its stack is walked from outside
// (outside_stack.h), and a frame that contains the lock's address is proof. Reports nothing for a running thread, or if
// the walk does not reach the stack's end. Called by LookAtWaits.
void FindLocksOnStacks(const TableFile& table, WaitGraph* state);

// Counts threads that sleep in OpenMP's runtime or in libc's internal locks, which are not in the table: sets
// WaitGraph::unseen. Examines at most 64 threads. Called by LookAtWaits if locks are profiled.
void FindUnseenWaits(const TableFile& table, WaitGraph* state);

// The state of a lock, from its bytes and the kind of the wait. For LookAtWaits and tests.
struct LockState {
  uint32_t owner = 0;  // thread id; 0: none
  uint32_t readers = 0;
  bool owner_died = false;
  bool is_held_by_unknown = false;  // held, `owner` is 0: musl's normal mutexes and writers; glibc's for an instant
};
inline constexpr size_t kLockBytes = 56;  // size of the largest, pthread_rwlock_t
LockState StateOfLock(WaitKind kind, const char (&bytes)[kLockBytes], bool is_musl = false);

// Returns the cycles of threads that wait for each other. waits_for[i] is the thread that thread i waits for (kNoIndex:
// none). Each cycle is returned once.
std::vector<std::vector<uint32_t>> CirclesOf(const std::vector<uint32_t>& waits_for);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_OUTSIDE_LOOK_AT_WAITS_H_
