// Who held a lock that others waited for: see holds.h, and sampler/hot_path/lock_slots.h for what is attributed to
// whom. A gap (gap_ns) is the delay of a hand-off: nobody held the lock.
#include <errno.h>

#include "sampler/locks/holds.h"
#include "sampler/locks/lock_records.h"
#include "sampler/locks/lock_sampling.h"
#include "sampler/locks/ongoing_waits.h"
#include "sampler/locks/wait_internal.h"
#include "sampler/process/enter.h"
#include "sampler/stacks/sample_stack.h"

namespace holdfast {
namespace {

// A hold of so much waiting is worth a look whether all its waiters still live.
constexpr int64_t kLookForTheDeadNs = 10'000'000;

// The process whose memory this is: a vfork child has an id of its own, and none of these threads.
bool IsDead(int thread_id) { return RawSyscall(SYS_tgkill, process.pid, thread_id, 0) == -ESRCH; }

// A thread that ended in the midst of a wait and told nobody (a handler made the system call exit, or jumped out of the
// wait) would be waited for by this lock's holders for ever. Its wait ends when the lock last changed hands before this hold.
void TakeOutTheDead(SharedTable* recorded, ThreadState& thread, LockHold* hold) {
  LockSlots* all = lock_slots.load(std::memory_order_acquire);
  if (all == nullptr || no_system_calls.load(std::memory_order_relaxed)) return;
  for (WaitingThread& waiting : all->threads) {
    int id = waiting.thread_id.load(std::memory_order_acquire);
    if (id == 0) continue;
    LockSlot* slot = waiting.slot.load(std::memory_order_relaxed);
    const auto kind = static_cast<WaitKind>(waiting.kind.load(std::memory_order_relaxed));
    const int64_t start_ns = waiting.start_ns.load(std::memory_order_relaxed);
    const bool of_condition =
        kind == WaitKind::kCondition &&
        reinterpret_cast<uint64_t>(slot->mutex.load(std::memory_order_relaxed)) == LockOfSlot(hold->slot);
    if ((slot != hold->slot && !of_condition) || !IsDead(id)) continue;
    // Only one thread takes it out.
    if (!waiting.thread_id.compare_exchange_strong(id, 0, std::memory_order_relaxed)) continue;
    DropOngoingOf(recorded, id);
    const int64_t end_ns = start_ns > hold->since_ns ? start_ns : hold->since_ns;
    int64_t attributed_from_ns = end_ns;
    LockCounters& counters = LockCountersOf(recorded, thread);
    if (of_condition) {
      const DroppedSignal signal = DropSignal(slot, hold->until_ns, hold->since_ns);
      attributed_from_ns = signal.end_ns != 0 && signal.end_ns < hold->until_ns ? signal.end_ns : hold->until_ns;
      if (signal.end_ns > signal.start_ns)
        AddToCounters(counters, WaitKind::kMutex, static_cast<uint64_t>(signal.end_ns - signal.start_ns), false);
      RemoveWaiter(slot, end_ns);
      TidyWokenSlot(slot, reinterpret_cast<const void*>(LockOfSlot(slot)), end_ns);
    } else {
      RemoveWaiter(slot, end_ns);
    }
    Unsettle(hold->slot, hold->until_ns - attributed_from_ns);
    hold->attributed_ns -= hold->until_ns - attributed_from_ns;
    const auto waited_ns = static_cast<uint64_t>(end_ns - start_ns);
    AddToCounters(counters, kind, waited_ns, false);
    AddToRecord(recorded, FindLockRecord(recorded, reinterpret_cast<const void*>(LockOfSlot(slot)), kind), waited_ns);
  }
}

// Bounded by what its waiters have waited: the first one's time may be an older one's, or lie in the future (after a signal).
int64_t HeldNs(const LockHold& hold) {
  int64_t held_ns = hold.held_ns;
  if (held_ns > hold.until_ns - hold.since_ns) held_ns = hold.until_ns - hold.since_ns;
  return held_ns < hold.attributed_ns ? held_ns : hold.attributed_ns;
}

void AddHold(SharedTable* recorded, LockRecord* record, uint64_t attributed_ns, uint64_t held_ns) {
  record->holds.fetch_add(1, std::memory_order_relaxed);
  AddTo(recorded, &record->hold_ns, attributed_ns);
  AddTo(recorded, &record->held_ns, held_ns);
  RaiseTo(&record->longest_held_ns, held_ns);
  AddTime(recorded, &record->hold_times, held_ns, 1);
}

// The hold, divided among those that are known to have waited during it.
void AddPairs(SharedTable* recorded, Row* row, const LockHold& hold, const Weight& weight) {
  uint64_t known = 0;
  for (const Offset waiter : hold.waiters) known += waiter != 0;
  const Offset holder = recorded->OffsetOf(row);
  if (known == 0) AddToPair(recorded, FindLockPair(recorded, holder, 0, hold.record), weight, 1);
  for (const Offset waiter : hold.waiters) {
    if (waiter != 0) AddToPair(recorded, FindLockPair(recorded, holder, waiter, hold.record), weight, known);
  }
}

}  // namespace

void AddLeftover(SharedTable* recorded, const ThreadState& thread, const Leftover& left) {
  if (left.ns == 0 || left.of_condition) return;  // nobody holds a condition
  const WaitKind of_table = left.table == kHeldTable ? WaitKind::kMutex : WaitKind::kFutex;
  LockRecord* record = left.record != 0 ? recorded->At<LockRecord>(left.record) : nullptr;
  const WaitKind kind = record != nullptr ? record->kind : of_table;
  LockCounters& counters = LockCountersOf(recorded, thread);
  if (left.ns > 0) return Count(counters.gap_ns, kind, static_cast<uint64_t>(left.ns));
  // Part of a wait whose end was put too early: whoever it was, it has been waited.
  Count(counters.wait_ns, kind, static_cast<uint64_t>(-left.ns));
  if (record != nullptr) AddTo(recorded, &record->wait_ns, static_cast<uint64_t>(-left.ns));
}

LockSlot* ClaimSlotAndCount(SharedTable* recorded, const ThreadState& thread, const void* lock, SlotTable table) {
  Leftover left;
  LockSlot* slot = ClaimSlot(lock, table, &left);
  AddLeftover(recorded, thread, left);
  return slot;
}

void BeginUnlock(const void* lock, WaitKind kind, bool sleepers, LockHold* hold) {
  ThreadState& thread = thread_state;
  *hold = {};
  if (no_clock.load(std::memory_order_relaxed) || !EnterSlow(thread)) return;
  SharedTable* recorded = table();
  if (recorded == nullptr) return;
  DropAbandonedWait(recorded, thread, hold);
  LockSlot* slot = FindSlot(lock, TableOf(kind));
  if (slot == nullptr) return;
  if ((slot->visits.load(std::memory_order_relaxed) & kSumsDue) != 0)
    slot->visits.fetch_and(~kSumsDue, std::memory_order_relaxed);
  if (!sleepers && __atomic_load_n(&lock_preparing, __ATOMIC_RELAXED) == 0) {
    if (WaitersOf(*slot) != 0) return;  // woken, and on their way
    AddLeftover(recorded, thread, VisitIdleSlot(slot, lock, kOneVisitIn));
    return;
  }
  // Everything else can wait until the program has let its lock go; what the slot says then may be another lock's.
  hold->since_ns = slot->settled_ns.load(std::memory_order_relaxed);
  const int64_t attributed_ns = Settle(slot, &hold->until_ns);
  if (attributed_ns == 0) {
    if (hold->until_ns == 0) AddLeftover(recorded, thread, VisitIdleSlot(slot, lock, 1));
    return;
  }
  hold->slot = slot;
  hold->attributed_ns = attributed_ns;
  hold->held_ns = WaitedForNs(*slot, hold->until_ns);
  hold->kind = kind;
  const Offset record = slot->record.load(std::memory_order_relaxed);
  if (record != 0) hold->record = recorded->At<LockRecord>(record);
  for (int i = 0; i < kSlotWaiters; ++i) hold->waiters[i] = slot->waiters[i].load(std::memory_order_relaxed);
}

void AfterUnlock(const void* lock) {
  ThreadState& thread = thread_state;
  // Out of calm ones, as Calm left it; any other is one that cannot be calm.
  const bool ran_out = thread.calm_unlocks > kOneVisitIn;
  const bool due = thread.ended_wait.publishing == Publishing::kDue;
  if (ran_out) thread.calm_unlocks = due ? 0 : kOneVisitIn - 1;
  if (table() == nullptr || !EnterSlow(thread)) return;
  if (due) {
    PublishWaitSlow();
    if (LockSlot* slot = FindSlot(lock, kHeldTable)) slot->visits.fetch_and(~kSumsDue, std::memory_order_relaxed);
    return;
  }
  const uint16_t before = thread.tended;
  thread.tended = static_cast<uint16_t>(before + (ran_out ? kOneVisitIn : 1));
  const uint32_t turn = thread.tended / kOneVisitIn;
  if (turn != before / kOneVisitIn) TendSlots(turn);
}

void EndUnlock(const CallerRegisters& caller, bool succeeded, LockHold* hold) {
  PublishWait();
  SharedTable* recorded = table();
  if (hold->slot == nullptr || recorded == nullptr) return;
  if (!succeeded)
    return Unsettle(hold->slot, hold->attributed_ns);  // not its lock: it is still to be attributed to whoever holds it
  ThreadState& thread = thread_state;
  if (!EnterSlow(thread)) return;
  if (UNLIKELY(hold->attributed_ns >= kLookForTheDeadNs)) TakeOutTheDead(recorded, thread, hold);
  if (hold->attributed_ns <= 0) return;
  const auto attributed = static_cast<uint64_t>(hold->attributed_ns);
  const auto held = static_cast<uint64_t>(HeldNs(*hold));
  if (hold->record != nullptr) AddHold(recorded, hold->record, attributed, held);
  LockCounters& counters = LockCountersOf(recorded, thread);
  Count(counters.holds, hold->kind, 1);
  Count(counters.hold_ns, hold->kind, attributed);
  const uint64_t interval = PrepareLockCountdown(recorded, &thread.hold_countdown, &thread.hold_index, &thread.random);
  if (interval == 0 || !Wanted(recorded, ProfileKind::kMutex)) return;
  thread.hold_countdown -= hold->attributed_ns;
  if (thread.hold_countdown > 0) return;
  Mute(thread);
  const OwnTime own_time(recorded, thread);
  Row* row =
      FindLockRow(recorded, SampleStack(recorded, thread, caller), ProfileKind::kMutex, hold->kind, hold->record);
  counters.hold_samples.fetch_add(1, std::memory_order_relaxed);
  const Weight weight = WeightOf(attributed, interval);
  AddLockSample(recorded, row, attributed, held, weight);
  if (hold->record != nullptr) AddPairs(recorded, row, *hold, weight);
  own_time.Add();
  Unmute(thread);
}

void SettleLocks() {
  PublishWait();
  SharedTable* recorded = table();
  LockSlots* all = lock_slots.load(std::memory_order_acquire);
  if (recorded == nullptr || all == nullptr) return;
  for (uint32_t place = 0; place < kSlotTables * kLockSets * kKeysInSet; ++place) {
    LockSlot& slot = *(&all->slots[0][0][0] + place);
    if (WaitersOf(slot) == 0) AddLeftover(recorded, thread_state, LeftoverOf(&slot));
  }
}

}  // namespace holdfast
