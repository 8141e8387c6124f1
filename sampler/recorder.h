// All that the wrappers (interpose/) see of the sampler: decide, then record.
//
//     malloc:  if (LIKELY(!ChargeHeap(n))) return real(n);          // the hot path, whole
//              if (!HeapEventDue(n)) return real(n);                // slow: draw the next gap
//              block = real(n); RecordAlloc(caller, block, n);
//     free:    if (LIKELY(!PassesTag(p))) return real(p);           // the hot path, whole
//              if (PassesFilter(p)) RecordFree(p);                  // before the real free
//              real(p);
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork; none
// allocates, takes a lock that it could wait long for, prints, or changes errno. What cannot be recorded is counted.
#ifndef HOLDFAST_SAMPLER_RECORDER_H_
#define HOLDFAST_SAMPLER_RECORDER_H_

#include <cstddef>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/syscalls.h"
#include "sampler/heap/live_table.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/stacks/little_stack.h"
#include "sampler/stacks/stack_trace.h"

namespace holdfast {

// ---- The process ----

// Reads the options and decides whether to sample at all. `environment` as the kernel gave it. Called once, before any
// other function here. `dormant`: pass everything through (a sanitizer is there, say).
void StartRecording(const char* const* environment, const char* library_path, bool dormant);
// Whether free may rely on sampled blocks lying at tagged places: the allocator below has an aligned entry point of its
// own, and the interval is large enough for it to be worth it.
void AllowTag(bool allocator_can_align);
// An orderly end is near: waits, at most 2 s, until the exporter has written the last profile. Nothing sampled: returns
// at once. In a vfork child: does nothing.
void AwaitLastProfile();
// The program is about to forbid itself system calls: makes the table and starts the exporter now, then makes none.
// And if that failed (programs ask for a filter that cannot be, to see whether there are filters): as before.
// `strict`: SECCOMP_MODE_STRICT, which also forbids to read the time.
void BeforeSeccomp(bool strict);
void AfterFailedSeccomp();
// PR_SET_TSC: the program forbids, or allows again, to read the time without a system call.
void ForbidClock(bool forbidden);
// Children are about to be born into another pid namespace: makes the table and starts the exporter now, if there are none yet.
void BeforeNewNamespace();
// Around a fork, in the parent. The child goes on with the gap that is drawn before, the parent with another: what is
// sampled in a child depends neither on its parent nor on its siblings. Also right where no child comes of it, or where
// AfterFork is not called (then parent and child share that one gap).
void BeforeFork();
void AfterFork();
// The program is about to change its user ids to these (kSameUser: not this one), and did so. Where root gives up its rights,
// what needs them is done before: see table_owner.h. Any thread, also in a vfork child and in a signal handler.
inline constexpr uint32_t kSameUser = UINT32_MAX;
void BeforeUserChange(uint32_t real, uint32_t effective, uint32_t saved);
void AfterUserChange();
// Another root is on its way, from where no table can be made.
void BeforeNewRoot();
// dlclose is called; it returned. Any thread, balanced.
void BeforeUnload();
void AfterUnload();
// HOLDFAST_SIGNAL, 0 = none; and what its handler does: asks for a snapshot.
int SnapshotSignal();
void RequestSnapshot();

// ---- The heap ----

// Slow half of ChargeHeap, to be called when it said true.
// True: this allocation is to be sampled. False: not this one.
bool HeapEventDue(size_t bytes);
// Records a sampled block. Must come before the program learns the address. `block` null (the allocation failed):
// nothing happened.
void RecordAlloc(const CallerRegisters& caller, void* block, size_t bytes);

// Takes a block's sample, if it has one, out of reach; then says how it ended.
TakenLive TakeSample(const void* block);
void RecordFree(const TakenLive& taken, const void* block);
void PutBackSample(const TakenLive& taken, const void* block);
inline void RecordFree(const void* block) {
  const TakenLive taken = TakeSample(block);
  if (taken.key != nullptr) RecordFree(taken, block);
}

// ---- Locks: who waits ----

// One wait, from before it to after it. Lives on the waiter's stack.
//
// The stack must be captured while the thread waits: before it, it is a cost to every wait; after it, the program holds
// its lock. And whether it is captured must not depend on whether the wait will be sampled, as a capture lengthens a short
// wait several times over (by then the lock has been let go and taken again), and estimates would be biased. So:
//   at the start            a wait at a place (lock, caller, height of the stack) where this thread's stack is known is not
//                           captured, only one in kLookAgain, by lot, to see whether it still is the same stack; that one is
//                           not sampled. But it is where this thread's last wait outlasted kFirstPartNs: this one most likely
//                           will, too. At a place that is not known one in kShare is captured, by lot;
//   after kFirstPartNs      at a place that was not known every wait that is still not over is captured (the wait is cut in two
//                           by a deadline, which makes waking up a few microseconds slower: so not elsewhere);
//   at the end              a wait that was captured for sure is sampled with p = 1 − exp(−w/R); others with p·chance: where
//                           the stack was known, if the lot had not fallen on it; else if it had.
// With an interval of at most kShareAllBelowNs the lot falls on every wait. What cannot be waited for in parts is captured
// by lot, too, but every time when the thread's last wait of that kind was a long one: that is known before this one begins,
// so it is no bias, and threads that wait long are seen with little error.
struct LockWait {
  int64_t start_ns;          // CLOCK_MONOTONIC; later by what our own work lengthened it
  int64_t budget_ns;         // to the thread's next event: sampled if the wait lasts that long
  uint64_t interval;         // that was in force when it began
  int64_t capture_start_ns;  // of a capture that EnterWait has not looked at yet; 0 = none
  int64_t capture_end_ns;
  const void* holder;  // what it waits for, as BeginWait was told
  LockRecord* record;  // of that lock; null: none
  LockPair* pair;      // where a sample of this wait goes, beside the row
  LockSlot* slot;      // where holders see that somebody waits; null: they do not
  Row* row;            // where the sample goes; null while no stack is known
  Stack* stack;        // whose row it is
  CurrentWait outer;   // that this one interrupted (in a signal handler)
  WaitKind kind;
  bool active;    // false: this thread or process does not record; just call the real function
  bool in_parts;  // wait until start_ns + kFirstPartNs, then call StillWaiting if it is not over
  uint8_t known;  // 1 + the number of its place among those that this thread knows; 0: not looked for
  bool sampled;   // if one is due: the row is known, and our own work did not lengthen it
  float chance;   // that of a wait like this one, before the lot fell; 0: only holders are wanted
};
inline constexpr uint32_t kShare = 4, kLookAgain = 32;
inline constexpr uint64_t kShareAllBelowNs = 1'000;
inline constexpr int64_t kFirstPartNs = 150'000;

// How it can be waited for.
enum class WaitStyle {
  kInParts,  // with a deadline of ours
  kWhole,    // captured first, by lot
  kRare,     // captured first, always: waits that are few and long
};
// Before a wait that is sure to come. `holder`: what is waited for, by its address; null when it has none (a thread).
void BeginWait(const CallerRegisters& caller, const void* holder, WaitKind kind, WaitStyle style, LockWait* wait);
void StillWaiting(const CallerRegisters& caller, LockWait* wait);
// After each of these, just before the real function: if it is free now, it came free during the capture, and the rest of
// that was our own doing. It is taken off, for the waiter and for the gap.
void EnterWait(bool free_now, LockWait* wait);
// After it, whatever its outcome. `acquired`: the program has its lock now. Then only the clock is read and the slot is told;
// the sums of a wait shorter than kPublishAtOnceNs are added when the lock has been let go (EndUnlock or AfterUnlock), or
// when this thread next waits, so that nobody waits for them.
void EndWait(LockWait* wait, bool acquired);
inline constexpr uint64_t kPublishAtOnceNs = 10'000'000;
void PublishWaitSlow();
inline void PublishWait() {
  if (thread_state.ended_wait.publishing == Publishing::kDue) PublishWaitSlow();
}
// After the real unlock of a lock that was not Calm, where EndUnlock is not called: adds the sums, or has the closer look.
void AfterUnlock(const void* lock);
// Something was registered with libc that ends the wait if its thread is cancelled. Whoever takes the wait for abandoned puts
// `former`, which was first in libc's list, back there.
inline void NoteCleanup(const LockWait* wait, const void* cleanup, const void* former) {
  CurrentWait& current = thread_state.current_wait;
  const auto from = reinterpret_cast<intptr_t>(wait);
  const intptr_t to_cleanup = reinterpret_cast<intptr_t>(cleanup) - from;
  const intptr_t to_former = former != nullptr ? reinterpret_cast<intptr_t>(former) - from : 0;
  const bool near = to_cleanup == static_cast<int16_t>(to_cleanup) && to_former == static_cast<int32_t>(to_former);
  if (current.wait != wait || !near) return;  // not near: on another stack, by which a handler came here
  current.former_cleanup = static_cast<int32_t>(to_former);
  current.cleanup = static_cast<int16_t>(to_cleanup);
}
// It was no wait after all: it counts for nothing.
void DropWait(LockWait* wait);

// A wait for a condition: EnterWait, the real function, which lets `mutex` go and takes it again, EndConditionWait.
// `woken`: it did not run out of time. The wait for the mutex begins with the signal.
void BeginConditionWait(const CallerRegisters& caller, const void* condition, const void* mutex, LockWait* wait);
void EndConditionWait(LockWait* wait, const void* condition, const void* mutex, bool woken);
// Before a signal or a broadcast of a condition that is watched: who waits for it and was not signalled yet, if anybody does,
// and the mutex that they let go. Then, how many of these the signal is sure to wake: none is to be counted that did not
// sleep.
struct ConditionWaiters {
  const void* mutex;  // null: nobody waits
  uint64_t count;
};
ConditionWaiters WaitersOfCondition(const void* condition);
void RecordSignal(const void* condition, const void* mutex, uint64_t woken);
// This thread's id; 0 where it may not ask. Whether memory can be read.
int ThreadId();
bool CanRead(const void* address);

// ---- Locks: who holds ----

// An unlock of a lock that is Watched. The wrapper calls
//     BeginUnlock(lock, kind, sleepers, &hold);  real unlock;  EndUnlock(caller, succeeded, &hold);
// `sleepers`: whether the lock's own word says that somebody sleeps, or cannot tell.
// The lock itself is never touched: it may be gone after the real unlock.
struct LockHold {
  LockRecord* record;            // of the lock; null: none
  Offset waiters[kSlotWaiters];  // rows of those that wait, as far as they are known
  LockSlot* slot;
  int64_t charged_ns;          // waited by others during this hold, all together
  int64_t since_ns, until_ns;  // when it was settled before and now, as far as it is known
  WaitKind kind;
};
void BeginUnlock(const void* lock, WaitKind kind, bool sleepers, LockHold* hold);
void EndUnlock(const CallerRegisters& caller, bool succeeded, LockHold* hold);
// Before the last profile: what was waited for locks that nobody waits for any more, and that no unlock came by to be
// charged with, becomes a gap. (A waiter that gave up between its holder's BeginUnlock and the real unlock leaves such.)
void SettleLocks();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORDER_H_
