// The waiters of locks, for the wrappers (interpose/):
//
//     LockWait wait;  BeginWait(caller, lock, kind, style, &wait);  EnterWait(…, &wait);  the real function;  EndWait(&wait, …)
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork; none
// allocates, waits long for a lock, prints, or changes errno. What cannot be recorded is counted.
#ifndef HOLDFAST_SAMPLER_RECORD_WAITS_H_
#define HOLDFAST_SAMPLER_RECORD_WAITS_H_

#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/layout.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/record/wait_state.h"

namespace holdfast {

// One wait, from before it to after it. On the waiter's stack; only the sampler uses its contents.
class LockWait {
 public:
  // The start, later by our own work.
  int64_t start_ns() const { return state_.start_ns; }
  // Wait until start_ns() + kFirstPartNs, then call ContinueWait if it is not over.
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

// How the wrapper can wait.
enum class WaitStyle {
  kInParts,  // with our own deadline
  kWhole,    // captured first, if randomly chosen
  kRare,     // captured first, always: waits that are few and long
};
// Call before a wait that is sure to happen. `holder`: the address of the lock; null if it has none (a thread).
void BeginWait(const CallerRegisters& caller, const void* holder, WaitKind kind, WaitStyle style, LockWait* wait);
void ContinueWait(const CallerRegisters& caller, LockWait* wait);
// After BeginWait: the real function may wait by other wrapped functions (a runtime's barrier, by a condition).
void CoverInnerWaits(const LockWait& wait);
// After BeginWait and ContinueWait, just before the real function. If the lock is free now, it was released during the
// capture, and the rest of that time was our own work: it is subtracted from the wait and from the hand-off delay.
void EnterWait(bool free_now, LockWait* wait);
// After the wait, whatever its outcome. `acquired`: the program has its lock now. Then this only reads the clock and
// updates the slot. The sums of a wait shorter than kPublishAtOnceNs are added after the unlock (EndUnlock or
// AfterUnlock), or when this thread next waits, so that nobody waits for them.
void EndWait(LockWait* wait, bool acquired);
inline constexpr uint64_t kPublishAtOnceNs = 10'000'000;
void PublishWaitSlow();
inline void PublishWait() {
  if (thread_state.ended_wait.publishing == Publishing::kDue) PublishWaitSlow();
}
// Call after the real unlock if MayUnlockFast returned false and no EndUnlock follows. Adds the sums of the last wait, or
// looks for slots that are no longer needed. (Defined in hold_recorder.cc.)
void AfterUnlock(const void* lock);
// It was no wait after all: it does not count.
void DropWait(LockWait* wait);

// A wait for a condition: EnterWait, the real function, which releases `mutex` and takes it again, EndConditionWait.
// `woken`: it did not time out. The wait for the mutex begins with the signal.
void BeginConditionWait(const CallerRegisters& caller, const void* condition, const void* mutex, LockWait* wait);
void EndConditionWait(LockWait* wait, const void* condition, const void* mutex, bool woken);
// Before a signal or a broadcast of a watched condition: its waiters that were not signalled yet, if any, and the mutex
// that they released. Then, how many of these the signal is sure to wake: a waiter that did not sleep must not count.
struct ConditionWaiters {
  const void* mutex;  // null: nobody waits
  uint64_t count;
};
ConditionWaiters WaitersOfCondition(const void* condition);
void RecordSignal(const void* condition, const void* mutex, uint64_t woken);
// Whether memory can be read.
bool CanRead(const void* address);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_WAITS_H_
