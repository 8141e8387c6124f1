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
#include "sampler/locks/wait_state.h"

namespace holdfast {

// One wait, from before it to after it. Lives on the waiter's stack; what is in it is the sampler's.
class LockWait {
 public:
  // Since when; later by what our own work lengthened it.
  int64_t start_ns() const { return state_.start_ns; }
  // Wait until start_ns() + kFirstPartNs, then call StillWaiting if it is not over.
  bool in_parts() const { return state_.in_parts; }
  // False: this thread or process does not record; just call the real function.
  bool active() const { return state_.active; }

 private:
  friend WaitState* StateOf(LockWait* wait);  // wait_internal.h
  friend const WaitState* StateOf(const LockWait* wait);
  WaitState state_;
};
inline constexpr uint32_t kShare = 4, kLookAgain = 32;
inline constexpr uint64_t kShareAllBelowNs = 1'000;
inline constexpr int64_t kFirstPartNs = 150'000;

// How it can be waited for.
enum class WaitStyle {
  kInParts,  // with a deadline of ours
  kWhole,    // captured first, if randomly chosen
  kRare,     // captured first, always: waits that are few and long
};
// Before a wait that is sure to come. `holder`: what is waited for, by its address; null when it has none (a thread).
void BeginWait(const CallerRegisters& caller, const void* holder, WaitKind kind, WaitStyle style, LockWait* wait);
void StillWaiting(const CallerRegisters& caller, LockWait* wait);
// After each of these, just before the real function: if it is free now, it came free during the capture, and the rest of
// that was our own doing. It is taken off, for the waiter and for the hand-off delay.
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
// Whether memory can be read.
bool CanRead(const void* address);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_LOCKS_WAITS_H_
