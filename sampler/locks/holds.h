// Who holds a lock that others wait for, as the wrappers (interpose/) see it.
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork; none
// allocates, takes a lock that it could wait long for, prints, or changes errno. What cannot be recorded is counted.
#ifndef HOLDFAST_SAMPLER_LOCKS_HOLDS_H_
#define HOLDFAST_SAMPLER_LOCKS_HOLDS_H_

#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/layout.h"
#include "sampler/hot_path/lock_slots.h"

namespace holdfast {

class LockWait;

// An unlock of a lock that is Watched. The wrapper calls
//     BeginUnlock(lock, kind, sleepers, &hold);  real unlock;  EndUnlock(caller, succeeded, &hold);
// `sleepers`: whether the lock's own word says that somebody sleeps, or cannot tell.
// The lock itself is never touched: it may be gone after the real unlock.
struct LockHold {
  LockRecord* record;            // of the lock; null: none
  Offset waiters[kSlotWaiters];  // rows of those that wait, as far as they are known
  LockSlot* slot;
  int64_t attributed_ns;       // waited by others during this hold, all together
  int64_t since_ns, until_ns;  // when it was settled before and now, as far as it is known
  // How long it was held while somebody waited: from the later of the first waiter's coming and (where it had to wait itself, so
  // that it is known) its own acquisition. Each of several waiters waited at most that long.
  int64_t held_ns;
  int64_t alone_ns;   // of a reader: for how much of that it was the only one
  LockSlot* leaving;  // of a reader: where its unlock is noted
  WaitKind kind;
};
void BeginUnlock(const void* lock, WaitKind kind, bool sleepers, LockHold* hold);
void EndUnlock(const CallerRegisters& caller, bool succeeded, LockHold* hold);
// The same of a lock that readers hold (SlotReaders in sampler/hot_path/lock_slots.h). The wrapper calls
//     BeginReaderUnlock(lock, &hold);  SettleReader(caller, lock, readers, &hold);  real unlock;  EndUnlock(…);
// `readers`: how many the lock's word counts after BeginReaderUnlock, this one included.
void BeginReaderUnlock(const void* lock, LockHold* hold);
void SettleReader(const CallerRegisters& caller, const void* lock, uint32_t readers, LockHold* hold);
// A reader got a lock that others wait for; `readers`: how many there are now.
void NoteReaderCame(const void* lock, uint32_t readers);
// A writer begins to wait; `readers`: how many there are then.
void NoteReadersAtWait(const LockWait& wait, uint32_t readers);
// Before the last profile: what was waited for locks that nobody waits for any more, and that no unlock came by for, becomes
// hand-off delay. (A waiter that gave up between its holder's BeginUnlock and the real unlock leaves such.)
void SettleLocks();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_LOCKS_HOLDS_H_
