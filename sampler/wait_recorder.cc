// The waiter's half of lock profiling: see recorder.h.
#include "sampler/lock_records.h"
#include "sampler/lock_sampling.h"
#include "sampler/raw_memory.h"
#include "sampler/recorder.h"
#include "sampler/sample_stack.h"
#include "sampler/wait_steps.h"

namespace holdfast {
namespace {

std::atomic<Offset>& PlaceIn(LockSlot* slot, const ThreadState& thread) { return slot->waiters[thread.shard % kSlotWaiters]; }

void Capture(const CallerRegisters& caller, LockWait* wait) {
  ThreadState& thread = thread_state;
  __atomic_fetch_add(&lock_preparing, 1, __ATOMIC_RELAXED);
  wait->capture_start_ns = MonotonicNs();
  Mute(thread);
  Table* recorded = table();
  const OwnTime own_time(recorded, thread);
  Stack* stack = SampleStack(recorded, thread, caller);
  wait->stack = stack;
  wait->row = FindLockRow(recorded, stack, ProfileKind::kBlock, wait->kind, wait->record);
  if (wait->slot != nullptr) PlaceIn(wait->slot, thread).store(recorded->OffsetOf(wait->row), std::memory_order_relaxed);
  if (wait->record != nullptr) wait->pair = FindLockPair(recorded, 0, recorded->OffsetOf(wait->row), wait->record);
  own_time.Add();
  Unmute(thread);
  wait->capture_end_ns = MonotonicNs();
}

uint8_t ShareOf(const ThreadState& thread, WaitKind kind, WaitStyle style, uint64_t interval) {
  if (interval <= kShareAllBelowNs || style == WaitStyle::kRare) return 1;
  return style == WaitStyle::kWhole && (thread.long_waits & (1u << static_cast<int>(kind))) != 0 ? 1 : kShare;
}

void SetCurrent(ThreadState& thread, const CurrentWait& wait) {
  thread.current_wait = wait;
  NoteWaiting(ThreadId(), wait.kind, wait.slot, wait.start_ns);
}

}  // namespace

void AddToCounters(LockCounters& counters, WaitKind kind, uint64_t waited_ns, bool acquired) {
  Count(counters.waits, kind, 1);
  Count(counters.wait_ns, kind, waited_ns);
  if (acquired) Count(counters.acquired, kind, 1);
}

void AddToRecord(LockRecord* record, uint64_t waited_ns) {
  if (record == nullptr) return;
  record->waits.fetch_add(1, std::memory_order_relaxed);
  record->wait_ns.fetch_add(waited_ns, std::memory_order_relaxed);
  RaiseTo(&record->longest_ns, waited_ns);
}

void RegisterWaiter(Table* recorded, const void* holder, LockWait* wait) {
  if (!Wanted(recorded, ProfileKind::kMutex)) return;
  constexpr int kClaims = 3;  // of a slot that is being given up in the same moment
  for (int i = 0; i < kClaims; ++i) {
    LockSlot* slot = ClaimSlot(holder, TableOf(wait->kind));
    if (slot == nullptr) break;
    if (!AddWaiters(slot, holder, wait->start_ns)) continue;
    wait->slot = slot;
    if (wait->record != nullptr) slot->record.store(recorded->OffsetOf(wait->record), std::memory_order_relaxed);
    return;
  }
  recorded->Count(Loss::kLockSlotTaken);
}

void DropAbandonedWait(Table* recorded, ThreadState& thread, const void* frame) {
  // A wait that this thread is still in lies above this frame; otherwise a handler has jumped out of it. (On a signal
  // stack of its own this may drop a wait that is still there: it is then not charged to its end.)
  const CurrentWait abandoned = thread.current_wait;
  if (abandoned.wait == nullptr || frame < abandoned.wait) return;
  SetCurrent(thread, {});
  const int64_t now_ns = MonotonicNs();
  LockCounters& counters = LockCountersOf(recorded, thread);
  if (abandoned.slot != nullptr) {
    if (abandoned.kind == WaitKind::kCondition) {
      const DroppedSignal signal = DropSignal(abandoned.slot, now_ns, now_ns);
      if (signal.end_ns > signal.start_ns) AddToCounters(counters, WaitKind::kMutex, static_cast<uint64_t>(signal.end_ns - signal.start_ns), false);
    }
    RemoveWaiter(abandoned.slot, now_ns);
  }
  AddToCounters(counters, abandoned.kind, static_cast<uint64_t>(now_ns - abandoned.start_ns), false);
}

void MakeCurrent(ThreadState& thread, LockWait* wait) {
  wait->outer = thread.current_wait;
  SetCurrent(thread, {wait, wait->slot, wait->start_ns, wait->kind});
}

bool LeaveCurrent(ThreadState& thread, LockWait* wait) {
  if (thread.current_wait.wait != wait) return false;
  SetCurrent(thread, wait->outer);
  return true;
}

Table* BeginAnyWait(ThreadState& thread, WaitKind kind, LockWait* wait) {
  *wait = {};
  if (no_clock.load(std::memory_order_relaxed) || !EnterSlow(thread) || (process.options.lock_interval_ns == 0 && table() == nullptr)) return nullptr;
  // The first wait of a process makes the table, which takes a millisecond or two: before the clock is read.
  Mute(thread);
  Table* recorded = GetTable();
  Unmute(thread);
  if (recorded == nullptr) {
    CountBeforeTable(&BeforeTable::lost_samples, 1);
    return nullptr;
  }
  DropAbandonedWait(recorded, thread, wait);
  wait->interval = PrepareLockCountdown(recorded, &thread.lock_countdown, &thread.lock_index, &thread.random);
  if (wait->interval == 0) return nullptr;
  wait->active = true;
  wait->kind = kind;
  return recorded;
}

void CaptureByLot(const CallerRegisters& caller, Table* recorded, ThreadState& thread, WaitStyle style, LockWait* wait) {
  if (!Wanted(recorded, ProfileKind::kBlock)) return;
  wait->in_parts = style == WaitStyle::kInParts;
  wait->budget_ns = thread.lock_countdown;
  wait->share = ShareOf(thread, wait->kind, style, wait->interval);
  if (NextRandom(&thread.random) % wait->share == 0) Capture(caller, wait);
}

void SampleWait(Table* recorded, ThreadState& thread, uint64_t waited_ns, const LockWait& wait) {
  if (wait.share == 0) return;  // only holders are wanted
  const auto bit = static_cast<uint16_t>(1u << static_cast<int>(wait.kind));
  thread.long_waits = static_cast<uint16_t>(waited_ns >= kFirstPartNs ? thread.long_waits | bit : thread.long_waits & ~bit);
  thread.lock_countdown = wait.budget_ns - static_cast<int64_t>(waited_ns == 0 ? 1 : waited_ns);
  if (thread.lock_countdown > 0) return;
  thread.lock_countdown = 0;  // drawn anew before the next wait
  if (wait.row == nullptr) return;  // the lot had not fallen on it
  LockCountersOf(recorded, thread).wait_samples.fetch_add(1, std::memory_order_relaxed);
  const Weight weight = WeightOf(waited_ns, wait.interval, 1.0 / wait.share);
  AddLockSample(wait.row, waited_ns, weight);
  AddToPair(wait.pair, weight, 1);
}

void BeginWait(const CallerRegisters& caller, const void* holder, WaitKind kind, WaitStyle style, LockWait* wait) {
  ThreadState& thread = thread_state;
  Table* recorded = BeginAnyWait(thread, kind, wait);
  if (recorded == nullptr) return;
  wait->start_ns = MonotonicNs();
  if (holder != nullptr) {
    wait->holder = holder;
    wait->record = FindLockRecord(recorded, holder, kind);
    if (HasHolder(kind)) RegisterWaiter(recorded, holder, wait);
  }
  MakeCurrent(thread, wait);
  CaptureByLot(caller, recorded, thread, style, wait);
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
    const int64_t released = wait->slot->settled_ns.load(std::memory_order_relaxed);
    if (released >= wait->start_ns) came_free = released < start ? start : released < end ? released : end;
  }
  wait->start_ns += end - came_free;
  if (wait->slot != nullptr) DelayWaiter(wait->slot, end - came_free);
  ThreadState& thread = thread_state;
  if (thread.current_wait.wait == wait) SetCurrent(thread, {wait, wait->slot, wait->start_ns, wait->kind});
}

void EndWait(LockWait* wait, bool acquired) {
  Table* recorded = table();
  if (!wait->active || recorded == nullptr) return;  // null: forked meanwhile, in a signal handler
  ThreadState& thread = thread_state;
  if (!LeaveCurrent(thread, wait)) return;  // it was taken for abandoned, and counted
  int64_t end_ns = MonotonicNs();
  if (end_ns < wait->start_ns) end_ns = wait->start_ns;
  const auto waited = static_cast<uint64_t>(end_ns - wait->start_ns);
  LockCounters& counters = LockCountersOf(recorded, thread);
  if (LockSlot* slot = wait->slot) {
    RemoveWaiter(slot, end_ns);
    if (acquired) Count(counters.gap_ns, wait->kind, static_cast<uint64_t>(Settle(slot, &end_ns)));
    if (wait->kind == WaitKind::kFutex && WaitersOf(*slot) == 0) {
      Count(counters.gap_ns, wait->kind, static_cast<uint64_t>(VisitIdleSlot(slot, wait->holder, kOneVisitIn)));
    }
    if (wait->row != nullptr) PlaceIn(slot, thread).store(0, std::memory_order_relaxed);
  } else if (HasHolder(wait->kind)) {
    Count(counters.gap_ns, wait->kind, waited);  // without a slot nobody can be charged
  }
  AddToCounters(counters, wait->kind, waited, acquired);
  AddToRecord(wait->record, waited);
  SampleWait(recorded, thread, waited, *wait);
}

void DropWait(LockWait* wait) {
  if (!wait->active || table() == nullptr || !LeaveCurrent(thread_state, wait) || wait->slot == nullptr) return;
  RemoveWaiter(wait->slot, wait->start_ns);
  if (wait->row != nullptr) PlaceIn(wait->slot, thread_state).store(0, std::memory_order_relaxed);
}

int ThreadId() {
  ThreadState& thread = thread_state;
  if (thread.thread_id == 0 && !no_system_calls.load(std::memory_order_relaxed)) {
    thread.thread_id = static_cast<int>(RawSyscall(SYS_gettid));
  }
  return thread.thread_id;
}

bool CanRead(const void* address) { return PageReadable(reinterpret_cast<uintptr_t>(address)); }

}  // namespace holdfast
