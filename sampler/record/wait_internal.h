// The steps of a wait: wait_recorder.cc and wait_capture.cc define them, condition_recorder.cc uses them. Inside the
// sampler only.
#ifndef HOLDFAST_SAMPLER_RECORD_WAIT_INTERNAL_H_
#define HOLDFAST_SAMPLER_RECORD_WAIT_INTERNAL_H_

#include "sampler/record/waits.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

inline WaitState* StateOf(LockWait* wait) { return &wait->state_; }
inline const WaitState* StateOf(const LockWait* wait) { return &wait->state_; }

// The place in which holders find the row of this thread's wait.
inline std::atomic<Offset>& RowOfWaiter(LockSlot* slot, const ThreadState& thread) {
  return slot->waiters[thread.shard % kSlotWaiters];
}

// Clears `wait`. Returns null if it is not recorded; otherwise `wait` is active, without a start.
SharedTable* BeginAnyWait(ThreadState& thread, WaitKind kind, WaitState* wait);
// MakeCurrent makes jumps out of the wait noticeable. RegisterWaiter then shows holders that a thread waits since
// wait->start_ns.
void MakeCurrent(ThreadState& thread, WaitState* wait);
void RegisterWaiter(SharedTable* table, ThreadState& thread, const void* holder, WaitState* wait);
// Ends what these two began. False: the wait was dropped.
bool LeaveCurrent(ThreadState& thread, WaitState* wait, int64_t end_ns);
// Captures the stack now, or if this wait is randomly chosen.
void CaptureWait(const CallerRegisters& caller, WaitState* wait);
void CaptureIfChosen(const CallerRegisters& caller, SharedTable* table, ThreadState& thread, WaitStyle style,
                     WaitState* wait);
// Drops waits and captures that a signal handler jumped out of, when their thread comes by again; `frame`: its current
// position.
void DropAbandonedWaitSlow(SharedTable* table, ThreadState& thread, const void* frame);
inline void DropAbandonedWait(SharedTable* table, ThreadState& thread, const void* frame) {
  if (UNLIKELY(thread.current_wait.wait != nullptr || thread.preparing != 0))
    DropAbandonedWaitSlow(table, thread, frame);
}
// As ClaimSlot; the leftover of the slot's former lock becomes hand-off delay, or part of its waits.
LockSlot* ClaimSlotAndCount(SharedTable* table, ThreadState& thread, const void* lock, SlotTable slots);
void AddLeftover(SharedTable* table, ThreadState& thread, const Leftover& left);
void AddToRecord(SharedTable* table, LockRecord* record, uint64_t waited_ns);
// Call after the end of a registration for a condition.
void TidyWokenSlot(LockSlot* slot, const void* condition, int64_t end_ns);
// As AddToCounters, AddToRecord and AddToRow, for the part of an abandoned wait that was for the mutex.
void AddDroppedSignal(SharedTable* table, ThreadState& thread, const void* mutex, uint64_t waited_ns);
// For an abandoned wait for a condition: the thread does not wait for the mutex either, or not after `known_until_ns`.
// The period in which it seemed to; 0 and 0: it was not signalled.
struct DroppedSignal {
  int64_t start_ns, end_ns;
};
DroppedSignal DropSignal(LockSlot* slot, int64_t now_ns, int64_t known_until_ns);
// Call before a waiter that got a reader-writer lock leaves its slot: attributes the wait to the last of several
// readers that unlocked at once, if they did.
void AttributeToLastReader(SharedTable* table, ThreadState& thread, LockSlot* slot);
// Adds waiting that no EndWait could add to the row of that wait, or (`row` 0) to the one without a stack: so rows sum
// to the counters.
enum class Adds : bool { kOnlyTime, kAlsoOneWait };
void AddToRow(SharedTable* table, ThreadState& thread, WaitKind kind, const LockRecord* record, Offset row,
              uint64_t waited_ns, Adds adds);
void AddToCounters(LockCounters& counters, WaitKind kind, uint64_t waited_ns, bool acquired);
EndedWait Ended(const WaitState& wait, uint64_t waited_ns);
// Takes the wait from the thread's countdown, and adds a sample if one is due.
void SampleWait(SharedTable* table, ThreadState& thread, const EndedWait& wait);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_WAIT_INTERNAL_H_
