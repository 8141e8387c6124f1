// The holders of contended locks, for the wrappers (interpose/).
//
// Every function here may be called by any thread, also in a signal handler and in a child of fork or vfork; none
// allocates, waits long for a lock, prints, or changes errno. What cannot be recorded is counted.
#ifndef HOLDFAST_SAMPLER_RECORD_HOLDS_H_
#define HOLDFAST_SAMPLER_RECORD_HOLDS_H_

#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/layout.h"
#include "sampler/hot_path/lock_slots.h"

namespace holdfast {

class LockWait;

// The hold that an unlock ends. Only for a lock for which WatchedSlow is true. The wrapper calls
//     BeginUnlock(lock, kind, sleepers, &hold);  real unlock;  EndUnlock(caller, succeeded, &hold);
// `sleepers`: the lock's own word shows a sleeping thread, or cannot tell. The lock itself is never touched: it may be
// gone after the real unlock.
struct LockHold {
  LockRecord* record;            // of the lock; null: none
  Offset waiters[kSlotWaiters];  // rows of known waiters
  LockSlot* slot;
  int64_t attributed_ns;       // waiting of all others during this hold
  int64_t since_ns, until_ns;  // times of the previous settlement and of this one, if known
  // How long it was held while a thread waited: since the first waiter came, or since its own acquisition if that was
  // later and is known (it had to wait). Each of several waiters waited at most that long.
  int64_t held_ns;
  int64_t alone_ns;   // for a reader: how long of that it was the only one
  LockSlot* leaving;  // for a reader: counts its unlock
  WaitKind kind;
};
void BeginUnlock(const void* lock, WaitKind kind, bool sleepers, LockHold* hold);
void EndUnlock(const CallerRegisters& caller, bool succeeded, LockHold* hold);
// The same for a lock that readers hold (SlotReaders in sampler/hot_path/lock_slots.h). The wrapper calls
//     BeginReaderUnlock(lock, &hold);  SettleReader(caller, lock, readers, &hold);  real unlock;  EndUnlock(…);
// `readers`: the lock's count of readers after BeginReaderUnlock, this one included.
void BeginReaderUnlock(const void* lock, LockHold* hold);
void SettleReader(const CallerRegisters& caller, const void* lock, uint32_t readers, LockHold* hold);
// A reader got a contended lock; `readers`: how many there are now.
void NoteReaderCame(const void* lock, uint32_t readers);
// A writer begins to wait; `readers`: how many there are. Only the first waiter counts.
void NoteReadersAtWait(const LockWait& wait, uint32_t readers);
// Call before the last profile. If a lock has no waiters left, the time that no unlock was charged for becomes hand-off
// delay. (A waiter that gives up between its holder's BeginUnlock and the real unlock leaves such time.)
void SettleLocks();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_HOLDS_H_
