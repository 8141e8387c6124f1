// Who waits for a lock, as the wrappers (interpose/) see it:
//
//     LockWait wait;  BeginWait(caller, lock, kind, style, &wait);  EnterWait(…, &wait);  the real function;  EndWait(&wait, …)
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork; none
// allocates, takes a lock that it could wait long for, prints, or changes errno. What cannot be recorded is counted.
#ifndef HOLDFAST_SAMPLER_LOCKS_WAITS_H_
#define HOLDFAST_SAMPLER_LOCKS_WAITS_H_

#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/layout.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/this_thread.h"

namespace holdfast {

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

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_LOCKS_WAITS_H_
