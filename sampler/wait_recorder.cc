// The waiter's half of lock profiling: see recorder.h.
#include "sampler/lock_sampling.h"
#include "sampler/recorder.h"
#include "sampler/sample_stack.h"

namespace holdfast {
namespace {

constexpr int kClaims = 3;  // of a slot that others give up in the same moment

void Register(const void* holder, ThreadState& thread, LockWait* wait) {
  for (int i = 0; i < kClaims; ++i) {
    LockSlot* slot = ClaimSlot(holder);
    if (slot == nullptr) break;
    if (!AddWaiter(slot, holder, wait->start_ns)) continue;
    wait->slot = slot;
    return;
  }
  table()->Count(Loss::kLockSlotTaken);
}

std::atomic<Offset>& PlaceIn(LockSlot* slot, const ThreadState& thread) { return slot->waiters[thread.shard % kSlotWaiters]; }

void Capture(const CallerRegisters& caller, LockWait* wait) {
  ThreadState& thread = thread_state;
  __atomic_fetch_add(&lock_preparing, 1, __ATOMIC_RELAXED);
  wait->capture_start_ns = MonotonicNs();
  Mute(thread);
  Table* recorded = table();
  const OwnTime own_time(recorded, thread);
  Stack* stack = SampleStack(recorded, thread, caller);
  wait->row = FindRow(recorded, stack, ProfileKind::kBlock, wait->kind, 0);
  if (wait->slot != nullptr) PlaceIn(wait->slot, thread).store(recorded->OffsetOf(wait->row), std::memory_order_relaxed);
  own_time.Add();
  Unmute(thread);
  wait->capture_end_ns = MonotonicNs();
}

}  // namespace

void BeginWait(const CallerRegisters& caller, const void* holder, WaitKind kind, WaitStyle style, LockWait* wait) {
  ThreadState& thread = thread_state;
  *wait = {};
  if (!EnterSlow(thread) || (process.options.lock_interval_ns == 0 && table() == nullptr)) return;
  // The first wait of a process makes the table, which takes a millisecond or two: before the clock is read.
  Mute(thread);
  Table* recorded = GetTable();
  Unmute(thread);
  if (recorded == nullptr) {
    CountBeforeTable(&BeforeTable::lost_samples, 1);
    return;
  }
  const uint64_t interval =
      PrepareLockCountdown(recorded, &thread.lock_countdown, &thread.lock_index, &thread.random);
  if (interval == 0) return;
  wait->active = true;
  wait->interval = interval;
  wait->kind = kind;
  wait->start_ns = MonotonicNs();
  if (holder != nullptr && Wanted(recorded, ProfileKind::kMutex)) Register(holder, thread, wait);
  if (!Wanted(recorded, ProfileKind::kBlock)) return;
  wait->in_parts = style == WaitStyle::kInParts;
  wait->budget_ns = thread.lock_countdown;
  wait->share = interval <= kShareAllBelowNs || style == WaitStyle::kAtOnce ? 1 : kShare;
  if (NextRandom(&thread.random) % wait->share == 0) Capture(caller, wait);
}

void StillWaiting(const CallerRegisters& caller, LockWait* wait) {
  wait->share = 1;
  if (wait->row == nullptr) Capture(caller, wait);
}

void EnterWait(bool free_now, LockWait* wait) {
  const int64_t start = wait->capture_start_ns, end = wait->capture_end_ns;
  if (start == 0) return;
  __atomic_fetch_sub(&lock_preparing, 1, __ATOMIC_RELAXED);
  wait->capture_start_ns = 0;
  if (!free_now) return;
  // It came free when its holder said so; where that is not known, somewhere in the midst of the capture.
  int64_t came_free = start + (end - start) / 2;
  if (wait->slot != nullptr) {
    const int64_t released = wait->slot->released_ns.load(std::memory_order_relaxed);
    if (released >= wait->start_ns && released <= end) came_free = released > start ? released : start;
  }
  wait->start_ns += end - came_free;
  if (wait->slot != nullptr) DelayWaiter(wait->slot, end - came_free);
}

void EndWait(LockWait* wait, bool acquired) {
  Table* recorded = table();
  if (!wait->active || recorded == nullptr) return;  // null: forked meanwhile, by a signal handler
  ThreadState& thread = thread_state;
  int64_t end_ns = MonotonicNs();
  if (end_ns < wait->start_ns) end_ns = wait->start_ns;
  const auto waited = static_cast<uint64_t>(end_ns - wait->start_ns);
  LockCounters& counters = LockCountersOf(recorded, thread);
  if (LockSlot* slot = wait->slot) {
    RemoveWaiter(slot, end_ns);
    if (acquired) Count(counters.gap_ns, wait->kind, static_cast<uint64_t>(Settle(slot, &end_ns)));
    if (wait->row != nullptr) PlaceIn(slot, thread).store(0, std::memory_order_relaxed);
  }
  Count(counters.waits, wait->kind, 1);
  Count(counters.wait_ns, wait->kind, waited);
  if (acquired) Count(counters.acquired, wait->kind, 1);
  if (wait->share == 0) return;  // only holders are wanted
  thread.lock_countdown = wait->budget_ns - static_cast<int64_t>(waited == 0 ? 1 : waited);
  if (thread.lock_countdown > 0) return;
  thread.lock_countdown = 0;  // drawn anew before the next wait
  if (wait->row == nullptr) return;  // the lot had not fallen on it
  counters.wait_samples.fetch_add(1, std::memory_order_relaxed);
  AddLockSample(wait->row, waited, WeightOf(waited, wait->interval, 1.0 / wait->share));
}

}  // namespace holdfast
