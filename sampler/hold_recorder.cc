// The holder's half of lock profiling: see recorder.h, and lock_slots.h for what is charged.
#include "sampler/lock_records.h"
#include "sampler/lock_sampling.h"
#include "sampler/recorder.h"
#include "sampler/sample_stack.h"
#include "sampler/wait_steps.h"

namespace holdfast {
namespace {

void Visit(Table* recorded, const ThreadState& thread, LockSlot* slot, const void* lock, WaitKind kind, uint32_t visits) {
  const int64_t left_ns = VisitIdleSlot(slot, lock, visits);
  if (left_ns > 0) Count(LockCountersOf(recorded, thread).gap_ns, kind, static_cast<uint64_t>(left_ns));
}

// The hold, divided among those that are known to have waited during it.
void AddPairs(Table* recorded, Row* row, const LockHold& hold, const Weight& weight) {
  uint64_t known = 0;
  for (const Offset waiter : hold.waiters) known += waiter != 0;
  const Offset holder = recorded->OffsetOf(row);
  if (known == 0) AddToPair(FindLockPair(recorded, holder, 0, hold.record), weight, 1);
  for (const Offset waiter : hold.waiters) {
    if (waiter != 0) AddToPair(FindLockPair(recorded, holder, waiter, hold.record), weight, known);
  }
}

}  // namespace

void BeginUnlock(const void* lock, WaitKind kind, bool sleepers, LockHold* hold) {
  ThreadState& thread = thread_state;
  *hold = {};
  if (no_clock.load(std::memory_order_relaxed) || !EnterSlow(thread)) return;
  Table* recorded = table();
  if (recorded == nullptr) return;
  DropAbandonedWait(recorded, thread, hold);
  LockSlot* slot = FindSlot(lock, TableOf(kind));
  if (slot == nullptr) return;
  if (!sleepers && __atomic_load_n(&lock_preparing, __ATOMIC_RELAXED) == 0) {
    if (WaitersOf(*slot) != 0) return;  // woken, and on their way
    Visit(recorded, thread, slot, lock, kind, kOneVisitIn);
    return;
  }
  int64_t now_ns = 0;
  const int64_t charged_ns = Settle(slot, &now_ns);
  if (charged_ns == 0) {
    if (now_ns == 0) Visit(recorded, thread, slot, lock, kind, 1);
    return;
  }
  hold->slot = slot;
  hold->charged_ns = charged_ns;
  hold->kind = kind;
  const Offset record = slot->record.load(std::memory_order_relaxed);
  if (record != 0) {
    hold->record = recorded->At<LockRecord>(record);
    hold->record->holds.fetch_add(1, std::memory_order_relaxed);
    hold->record->hold_ns.fetch_add(static_cast<uint64_t>(charged_ns), std::memory_order_relaxed);
  }
  LockCounters& counters = LockCountersOf(recorded, thread);
  Count(counters.holds, kind, 1);
  Count(counters.hold_ns, kind, static_cast<uint64_t>(charged_ns));
  hold->interval = PrepareLockCountdown(recorded, &thread.hold_countdown, &thread.hold_index, &thread.random);
  if (hold->interval == 0) return;
  if (!Wanted(recorded, ProfileKind::kMutex)) return;
  thread.hold_countdown -= charged_ns;
  hold->sampled = thread.hold_countdown <= 0;
  if (!hold->sampled) return;
  for (int i = 0; i < kSlotWaiters; ++i) hold->waiters[i] = slot->waiters[i].load(std::memory_order_relaxed);
}

void EndUnlock(const CallerRegisters& caller, bool succeeded, LockHold* hold) {
  Table* recorded = table();
  if (hold->slot == nullptr || recorded == nullptr) return;
  ThreadState& thread = thread_state;
  const auto charged = static_cast<uint64_t>(hold->charged_ns);
  if (!succeeded) {  // not its lock: whoever holds it is still to be charged
    Unsettle(hold->slot, hold->charged_ns);
    LockCounters& counters = LockCountersOf(recorded, thread);
    Count(counters.holds, hold->kind, ~uint64_t{0});
    Count(counters.hold_ns, hold->kind, ~charged + 1);
    if (hold->record != nullptr) {
      hold->record->holds.fetch_sub(1, std::memory_order_relaxed);
      hold->record->hold_ns.fetch_sub(charged, std::memory_order_relaxed);
    }
    return;
  }
  if (!hold->sampled || !EnterSlow(thread)) return;
  Mute(thread);
  const OwnTime own_time(recorded, thread);
  Row* row = FindLockRow(recorded, SampleStack(recorded, thread, caller), ProfileKind::kMutex, hold->kind, hold->record);
  recorded->header()->lock_counters[thread.shard].hold_samples.fetch_add(1, std::memory_order_relaxed);
  const Weight weight = WeightOf(charged, hold->interval);
  AddLockSample(row, charged, weight);
  if (hold->record != nullptr) AddPairs(recorded, row, *hold, weight);
  own_time.Add();
  Unmute(thread);
}

}  // namespace holdfast
