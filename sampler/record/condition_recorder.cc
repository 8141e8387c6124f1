// Waits for conditions: first for the signal, then for the mutex. See waits.h.
//
//     waiter      wait(c, m) ──── asleep ────────────┐        m is taken ────────┐ returns with m
//     signaller                        signal(c) ────┘ t_s   … unlock(m)
//                 │◄──── condition, until t_s + L ───────►│◄──── mutex ─────────►│
//
// A signal adds the waiters that it wakes to the slot of the mutex, from t_s + L on, so that their waiting is
// attributed to the holder of the mutex. It leaves the time in the slot of the condition, where the woken threads find
// it. Which waiter takes which time does not matter for the sum. L: the time until a woken thread runs; until then it
// does not want the mutex yet. If nobody released or got the mutex after that, it was free, and all of it was waiting
// for the condition.
#include "sampler/capture/sample_stack.h"
#include "sampler/contract/clock.h"
#include "sampler/process/enter.h"
#include "sampler/record/lock_records.h"
#include "sampler/record/lock_sampling.h"
#include "sampler/record/ongoing_waits.h"
#include "sampler/record/wait_internal.h"

namespace holdfast {
namespace {

constexpr int64_t kWakeNs = 50'000;

uint64_t WaitersIn(uint64_t word) { return word & kWaitersMask; }

// Takes one of the times that signals have left, their mean; 0 = there is none.
int64_t TakeSignal(LockSlot* slot, bool woken, int64_t now_ns) {
  uint64_t word = slot->signalled.load(std::memory_order_relaxed);
  while (true) {
    const uint64_t count = WaitersIn(word);
    // A waiter that timed out takes one only if nobody else is left to take it.
    if (count == 0 || (!woken && count < WaitersOf(*slot))) return 0;
    const int64_t mean_ns = MeanStart(word, now_ns);
    const uint64_t taken = static_cast<uint64_t>(mean_ns) << kWaitersBits | 1;
    if (slot->signalled.compare_exchange_weak(word, word - taken, std::memory_order_relaxed)) return mean_ns;
  }
}

}  // namespace

// A waiter that times out at the moment of its signal may leave without taking the signal. Then nobody would, and the
// mutex would seem to have a waiter for ever. Sequentially consistent against each other: the signaller adds and then
// reads the waiters; a waiter leaves and then reads the signals. One of them sees both.
static void DropSignalsForNobody(LockSlot* slot, int64_t now_ns) {
  while (WaitersIn(slot->signalled.load(std::memory_order_seq_cst)) >
         (slot->waiting.load(std::memory_order_seq_cst) & kWaitersMask)) {
    if (DropSignal(slot, now_ns, 0).end_ns == 0) return;
  }
}

// `woken` threads wait for the mutex, starting at `from_ns`. Null: there is no slot.
static LockSlot* AddWokenWaiters(SharedTable* table, const void* mutex, int64_t from_ns, uint64_t woken) {
  for (int i = 0; i < 2; ++i) {  // the first one may just be being freed
    LockSlot* slot = ClaimSlotAndCount(table, thread_state, mutex, kHeldTable);
    if (slot == nullptr) return nullptr;
    if (AddWaiters(slot, mutex, WaitsFor::kLock, from_ns, woken)) return slot;
  }
  return nullptr;
}

void TidyWokenSlot(LockSlot* slot, const void* condition, int64_t end_ns) {
  DropSignalsForNobody(slot, end_ns);
  // No unlock follows, so the waiters themselves free the slot.
  if (WaitersOf(*slot) == 0) VisitIdleSlot(slot, condition, kOneVisitIn);
}

void AddDroppedSignal(SharedTable* table, ThreadState& thread, const void* mutex, uint64_t waited_ns) {
  LockRecord* record = FindLockRecord(table, mutex, WaitKind::kMutex);
  AddToCounters(LockCountersOf(table, thread), WaitKind::kMutex, waited_ns, false);
  AddToRecord(table, record, waited_ns);
  AddToRow(table, thread, WaitKind::kMutex, record, 0, waited_ns, Adds::kAlsoOneWait);
}

DroppedSignal DropSignal(LockSlot* slot, int64_t now_ns, int64_t known_until_ns) {
  const int64_t signalled_ns = TakeSignal(slot, false, now_ns);
  if (signalled_ns == 0) return {};
  const int64_t end_ns = signalled_ns > known_until_ns ? signalled_ns : known_until_ns;
  if (LockSlot* of_mutex = FindSlot(slot->mutex.load(std::memory_order_relaxed), kHeldTable))
    RemoveWaiter(of_mutex, end_ns);
  return {signalled_ns, end_ns};
}

void BeginConditionWait(const CallerRegisters& caller, const void* condition, const void* mutex, LockWait* opaque) {
  WaitState* wait = StateOf(opaque);
  ThreadState& thread = thread_state;
  SharedTable* table = BeginAnyWait(thread, WaitKind::kCondition, wait);
  if (table == nullptr) return;
  // The program holds the mutex: preparations before the wait keep others from it, so they come first, and are no part
  // of the wait.
  wait->holder = condition;
  wait->record = FindLockRecord(table, condition, WaitKind::kCondition);
  CaptureIfChosen(caller, table, thread, WaitStyle::kWhole, wait);
  EnterWait(false, opaque);
  wait->start_ns = MonotonicNs();
  MakeCurrent(thread, wait);
  RegisterWaiter(table, thread, condition, wait);
  if (wait->slot != nullptr) wait->slot->mutex.store(mutex, std::memory_order_relaxed);
  BeginOngoing(table, thread, caller, mutex, wait);
}

void EndConditionWait(LockWait* opaque, const void* condition, const void* mutex, bool woken) {
  WaitState* wait = StateOf(opaque);
  SharedTable* table = CurrentTable();
  if (!wait->active || table == nullptr) return;
  ThreadState& thread = thread_state;
  if (thread.current_wait.wait != wait) return;  // it was dropped as abandoned, and counted
  const int64_t end_ns = MonotonicNs();
  const int64_t signalled_ns = wait->slot != nullptr ? TakeSignal(wait->slot, woken, end_ns) : 0;
  LeaveCurrent(thread, wait, end_ns);
  EndOngoing(*wait, end_ns, woken);
  if (wait->slot != nullptr) TidyWokenSlot(wait->slot, condition, end_ns);
  LockCounters& counters = LockCountersOf(table, thread);
  WaitState for_mutex = *wait;
  int64_t for_mutex_ns = signalled_ns != 0 && end_ns > signalled_ns ? end_ns - signalled_ns : 0;
  if (signalled_ns != 0) {
    if (LockSlot* slot = FindSlot(mutex, kHeldTable)) {
      // If nobody released or got it meanwhile, it was free all the time, and the thread just woke up slowly.
      if (slot->settled_ns.load(std::memory_order_relaxed) < signalled_ns) for_mutex_ns = 0;
      RemoveWaiter(slot, signalled_ns + for_mutex_ns);
      for_mutex_ns += LengthenLastWait(slot);
      // Not beyond now: a mark in the future would attribute waiting that never happens.
      int64_t now_ns = end_ns;
      Count(counters.gap_ns, WaitKind::kMutex, static_cast<uint64_t>(Settle(slot, &now_ns)));
    }
  }
  const int64_t for_condition_ns = end_ns - wait->start_ns - for_mutex_ns;
  const auto waited = static_cast<uint64_t>(for_condition_ns > 0 ? for_condition_ns : 0);
  AddToCounters(counters, WaitKind::kCondition, waited, woken);
  AddToRecord(table, wait->record, waited);
  SampleWait(table, thread, Ended(*wait, waited));
  if (for_mutex_ns == 0) return;
  AddToCounters(counters, WaitKind::kMutex, static_cast<uint64_t>(for_mutex_ns), true);
  for_mutex.record = FindLockRecord(table, mutex, WaitKind::kMutex);
  for_mutex.pair = nullptr;
  AddToRecord(table, for_mutex.record, static_cast<uint64_t>(for_mutex_ns));
  if (wait->chance == 0) return;
  for_mutex.interval = PrepareLockCountdown(table, &thread.lock_countdown, &thread.lock_index, &thread.random);
  if (for_mutex.interval == 0) return;
  for_mutex.budget_ns = thread.lock_countdown;
  for_mutex.kind = WaitKind::kMutex;
  // The mutex is held: do only what a sample needs.
  if (wait->row != nullptr && wait->sampled && for_mutex.budget_ns <= for_mutex_ns) {
    for_mutex.row = FindLockRow(table, wait->stack, ProfileKind::kBlock, WaitKind::kMutex, for_mutex.record);
    if (for_mutex.record != nullptr) {
      for_mutex.pair = FindLockPair(table, 0, table->OffsetOf(for_mutex.row), for_mutex.record);
    }
  }
  SampleWait(table, thread, Ended(for_mutex, static_cast<uint64_t>(for_mutex_ns)));
}

ConditionWaiters WaitersOfCondition(const void* condition) {
  if (no_clock.load(std::memory_order_relaxed) || !OwnState()) return {};
  LockSlot* slot = FindSlot(condition, kWokenTable);
  if (slot == nullptr) return {};
  if (WaitersOf(*slot) == 0) {
    VisitIdleSlot(slot, condition, 1);
    return {};
  }
  // Acquire: read before the word of the mutex, see SignalAndRecord.
  const uint64_t waiters = WaitersIn(slot->waiting.load(std::memory_order_acquire));
  const uint64_t signalled = WaitersIn(slot->signalled.load(std::memory_order_acquire));
  if (waiters <= signalled) return {};
  return {slot->mutex.load(std::memory_order_acquire), waiters - signalled};
}

void RecordSignal(const void* condition, const void* mutex, uint64_t woken) {
  SharedTable* table = CurrentTable();
  LockSlot* slot = FindSlot(condition, kWokenTable);
  if (slot == nullptr || table == nullptr || woken == 0) return;
  const int64_t from_ns = MonotonicNs() + kWakeNs;
  // Registers the signal as a waiter, so that the slot stays this condition's until the signal can be taken.
  if (!AddWaiters(slot, condition, WaitsFor::kCondition, from_ns)) return;
  if (LockSlot* of_mutex = AddWokenWaiters(table, mutex, from_ns, woken)) {
    if (LockRecord* record = FindLockRecord(table, mutex, WaitKind::kMutex)) {
      of_mutex->record.store(table->OffsetOf(record), std::memory_order_relaxed);
    }
    slot->signalled.fetch_add(woken * (static_cast<uint64_t>(from_ns) << kWaitersBits | 1), std::memory_order_seq_cst);
  } else {
    table->Count(Loss::kLockSlotTaken);
  }
  RemoveWaiter(slot, from_ns);
  DropSignalsForNobody(slot, from_ns);
}

}  // namespace holdfast
