// Waiters, how long they wait, and at which call site: see waits.h.
#include <pthread.h>

#include "sampler/capture/raw_memory.h"
#include "sampler/capture/sample_stack.h"
#include "sampler/hot_path/own_floats.h"
#include "sampler/process/enter.h"
#include "sampler/process/exporter_watch.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/record/allocator_waits.h"
#include "sampler/record/cleanup.h"
#include "sampler/record/lock_records.h"
#include "sampler/record/lock_sampling.h"
#include "sampler/record/ongoing_waits.h"
#include "sampler/record/wait_internal.h"
#include "sampler/record/waits.h"
#include "sampler/table/in_use.h"

namespace holdfast {

constinit CleanupFunctions cleanup_functions{};

namespace {

void EndPreparing(ThreadState& thread) {
  if (thread.preparing == 0) return;  // forked meanwhile
  --thread.preparing;
  __atomic_fetch_sub(&lock_preparing, 1, __ATOMIC_RELAXED);
}

}  // namespace

void AddToCounters(LockCounters& counters, WaitKind kind, uint64_t waited_ns, bool acquired) {
  Count(counters.waits, kind, 1);
  Count(counters.wait_ns, kind, waited_ns);
  if (acquired) Count(counters.acquired, kind, 1);
}

void AddToRecord(SharedTable* table, LockRecord* record, uint64_t waited_ns) {
  if (record == nullptr) return;
  record->waits.fetch_add(1, std::memory_order_relaxed);
  AddTo(table, &record->wait_ns, waited_ns);
  RaiseTo(&record->longest_ns, waited_ns);
  AddTime(table, &record->wait_times, waited_ns, 1);
}

static void NoteCurrent(const ThreadState& thread) {
  const CurrentWait& wait = thread.current_wait;
  NoteWaiting(ThreadId(), wait.kind, wait.slot, wait.start_ns);
}

// Hides the registration first from the search for dead threads and from the search for abandoned waits, then ends it:
// no jump and no death in between ends a registration twice.
static void EndRegistration(ThreadState& thread, int64_t end_ns) {
  LockSlot* slot = thread.current_wait.slot;
  if (slot == nullptr) return;
  NoteWaiting(ThreadId(), thread.current_wait.kind, nullptr, 0);
  thread.current_wait.slot = nullptr;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  RemoveWaiter(slot, end_ns);
}

void RegisterWaiter(SharedTable* table, ThreadState& thread, const void* holder, WaitState* wait) {
  if (!Wanted(table, ProfileKind::kMutex)) return;
  constexpr int kClaims = 3;  // of a slot that is just being freed
  const WaitsFor what = wait->kind == WaitKind::kCondition ? WaitsFor::kCondition : WaitsFor::kLock;
  for (int i = 0; i < kClaims; ++i) {
    LockSlot* slot = ClaimSlotAndCount(table, thread, holder, TableOf(wait->kind));
    if (slot == nullptr) break;
    if (!AddWaiters(slot, holder, what, wait->start_ns)) continue;
    thread.current_wait.slot = wait->slot = slot;
    NoteCurrent(thread);
    if (wait->record != nullptr) slot->record.store(table->OffsetOf(wait->record), std::memory_order_relaxed);
    return;
  }
  table->Count(Loss::kLockSlotTaken);
}

// The handler registered with libc is on a stack that may be in use for other things by now. If it is still the head of
// libc's list, it is removed; if not, something else was registered since, or libc itself has run it.
static void DropCleanup(const NotedWait& abandoned) {
  if (abandoned.cleanup == 0 || cleanup_functions.push == nullptr) return;
  const auto at = [&abandoned](int32_t bytes) {
    const auto wait = reinterpret_cast<intptr_t>(abandoned.wait);
    return bytes != 0 ? reinterpret_cast<_pthread_cleanup_buffer*>(wait + bytes) : nullptr;
  };
  _pthread_cleanup_buffer first;
  cleanup_functions.push(
      &first, [](void*) {}, nullptr);
  _pthread_cleanup_buffer*& former = FormerCleanup(&first);
  if (former == at(abandoned.cleanup)) former = at(abandoned.former_cleanup);
  cleanup_functions.pop(&first, 0);
}

static void DropInnermost(SharedTable* table, ThreadState& thread) {
  const int64_t now_ns = MonotonicNs();
  const CurrentWait abandoned = thread.current_wait;
  const bool of_condition = abandoned.slot != nullptr && abandoned.kind == WaitKind::kCondition;
  auto waited_ns = static_cast<uint64_t>(now_ns - abandoned.start_ns);
  LockCounters& counters = LockCountersOf(table, thread);
  if (of_condition) {
    const DroppedSignal signal = DropSignal(abandoned.slot, now_ns, now_ns);
    if (signal.end_ns > signal.start_ns)
      AddDroppedSignal(table, thread, abandoned.slot->mutex.load(std::memory_order_relaxed),
                       static_cast<uint64_t>(signal.end_ns - signal.start_ns));
  }
  const void* lock = abandoned.slot != nullptr ? reinterpret_cast<const void*>(LockOfSlot(abandoned.slot)) : nullptr;
  EndRegistration(thread, now_ns);
  const Offset row = DropOngoing(table, thread, abandoned.wait);
  DropCleanup(abandoned);
  thread.current_wait = {abandoned.outer, {}};
  NoteCurrent(thread);
  if (abandoned.slot != nullptr && !of_condition) waited_ns += static_cast<uint64_t>(LengthenLastWait(abandoned.slot));
  AddToCounters(counters, abandoned.kind, waited_ns, false);
  LockRecord* record = lock != nullptr ? FindLockRecord(table, lock, abandoned.kind) : nullptr;
  AddToRow(table, thread, abandoned.kind, record, row, waited_ns, Adds::kAlsoOneWait);
  if (abandoned.slot == nullptr) return;
  RowOfWaiter(abandoned.slot, thread).store(0, std::memory_order_relaxed);
  if (of_condition) TidyWokenSlot(abandoned.slot, lock, now_ns);
  AddToRecord(table, record, waited_ns);
}

void DropAbandonedWaitSlow(SharedTable* table, ThreadState& thread, const void* frame) {
  // A wait that this thread is still in is above this frame; otherwise a handler has jumped out of it. (On a separate
  // signal stack this may drop a wait that still exists: its end is then not attributed.)
  while (thread.current_wait.wait != nullptr && frame >= thread.current_wait.wait) DropInnermost(table, thread);
  if (thread.current_wait.wait != nullptr) return;
  while (thread.preparing != 0) EndPreparing(thread);
}

void MakeCurrent(ThreadState& thread, WaitState* wait) {
  wait->outer = thread.current_wait;
  const NotedWait noted = {.wait = wait,
                           .slot = nullptr,
                           .start_ns = wait->start_ns,
                           .kind = wait->kind,
                           .covers_inner = wait->kind == WaitKind::kCustom,
                           .cleanup = 0,
                           .former_cleanup = 0};
  thread.current_wait = {noted, wait->outer};
}

bool LeaveCurrent(ThreadState& thread, WaitState* wait, int64_t end_ns) {
  if (thread.current_wait.wait != wait) return false;
  EndRegistration(thread, end_ns);
  thread.current_wait = wait->outer;
  if (UNLIKELY(wait->outer.wait != nullptr)) NoteCurrent(thread);
  return true;
}

SharedTable* BeginAnyWait(ThreadState& thread, WaitKind kind, WaitState* wait) {
  *wait = {};
  if (no_clock.load(std::memory_order_relaxed) || !EnterSlow(thread) ||
      process.detached.load(std::memory_order_relaxed) ||
      (process.options.lock_interval_ns == 0 && CurrentTable() == nullptr) ||
      (UNLIKELY(process.libc == Libc::kOther) && kind <= WaitKind::kSpin))
    return nullptr;
  // The first wait of a process makes the table, which takes a millisecond or two: before the clock is read.
  SharedTable* table = GetTableMuted(thread);
  if (table == nullptr) {
    CountBeforeTable(&BeforeTable::lost_samples, 1);
    return nullptr;
  }
  GiveBackRoom(table, thread);
  PublishWait();
  DropAbandonedWait(table, thread, wait);
  // The program or a runtime reports the outer wait, by whatever means it waits: that one counts.
  if (thread.current_wait.wait != nullptr && thread.current_wait.covers_inner) return nullptr;
  wait->interval = PrepareLockCountdown(table, &thread.lock_countdown, &thread.lock_index, &thread.random);
  if (wait->interval == 0) return nullptr;
  wait->active = true;
  wait->kind = kind;
  return table;
}

EndedWait Ended(const WaitState& wait, uint64_t waited_ns) {
  return {.record = wait.record,
          .row = wait.row,
          .pair = wait.pair,
          .waited_ns = waited_ns,
          .interval = wait.interval,
          .budget_ns = wait.budget_ns,
          .gap_ns = 0,
          .chance = wait.chance,
          .kind = wait.kind,
          .sampled = wait.sampled,
          .acquired = false,
          .known = wait.known,
          .publishing = Publishing::kBusy};
}

void SampleWait(SharedTable* table, ThreadState& thread, const EndedWait& wait) {
  const uint64_t waited_ns = wait.waited_ns;
  if (wait.chance == 0) return;  // only holders are wanted
  const auto bit = static_cast<uint16_t>(1u << static_cast<int>(wait.kind));
  const bool is_long = waited_ns >= kFirstPartNs;
  thread.long_waits = static_cast<uint16_t>(is_long ? thread.long_waits | bit : thread.long_waits & ~bit);
  if (KnownWait* known = wait.known != 0 ? KnownWaitAt(ThreadId(), wait.known - 1u) : nullptr) {
    known->outlasted.store(is_long, std::memory_order_relaxed);
  }
  thread.lock_countdown = wait.budget_ns - static_cast<int64_t>(waited_ns == 0 ? 1 : waited_ns);
  if (thread.lock_countdown > 0) return;
  thread.lock_countdown = 0;                         // drawn anew before the next wait
  if (!wait.sampled || wait.row == nullptr) return;  // it was not chosen
  LockCountersOf(table, thread).wait_samples.fetch_add(1, std::memory_order_relaxed);
  const OwnFloats floats;
  const Weight weight = WeightOf(waited_ns, wait.interval, wait.chance);
  AddLockSample(table, wait.row, waited_ns, waited_ns, weight);
  AddToPair(table, wait.pair, weight, 1);
}

void AddToRow(SharedTable* table, ThreadState& thread, WaitKind kind, const LockRecord* record, Offset row,
              uint64_t waited_ns, Adds adds) {
  if (!Wanted(table, ProfileKind::kBlock)) return;
  const uint64_t interval = PrepareLockCountdown(table, &thread.lock_countdown, &thread.lock_index, &thread.random);
  if (interval == 0) return;
  thread.lock_countdown -= static_cast<int64_t>(waited_ns == 0 ? 1 : waited_ns);
  if (thread.lock_countdown > 0) return;
  thread.lock_countdown = 0;
  auto* unknown = table->At<Stack>(table->header()->missing_stack);
  Row* to = row != 0 ? table->At<Row>(row) : FindLockRow(table, unknown, ProfileKind::kBlock, kind, record);
  LockCountersOf(table, thread).wait_samples.fetch_add(1, std::memory_order_relaxed);
  const OwnFloats floats;
  Weight weight = WeightOf(waited_ns, interval);
  if (adds == Adds::kOnlyTime) weight.count = 0, weight.count_variance = 0;
  AddLockSample(table, to, waited_ns, waited_ns, weight);
}

static void Publish(SharedTable* table, ThreadState& thread, const EndedWait& ended) {
  LockCounters& counters = LockCountersOf(table, thread);
  if (ended.gap_ns != 0) Count(counters.gap_ns, ended.kind, ended.gap_ns);
  AddToCounters(counters, ended.kind, ended.waited_ns, ended.acquired);
  AddToRecord(table, ended.record, ended.waited_ns);
  SampleWait(table, thread, ended);
}

void BeginWait(const CallerRegisters& caller, const void* holder, WaitKind kind, WaitStyle style, LockWait* opaque) {
  WaitState* wait = StateOf(opaque);
  ThreadState& thread = thread_state;
  SharedTable* table = BeginAnyWait(thread, kind, wait);
  if (table == nullptr) return;
  if (IsCalledByAllocator(table, thread, caller)) {
    wait->active = false;
    return;
  }
  wait->start_ns = MonotonicNs();
  MakeCurrent(thread, wait);
  if (holder != nullptr) {
    wait->holder = holder;
    wait->record = FindLockRecord(table, holder, kind);
    if (HasHolder(kind)) RegisterWaiter(table, thread, holder, wait);
  }
  BeginOngoing(table, thread, caller, nullptr, wait);
  CaptureIfChosen(caller, table, thread, style, wait);
}

void CoverInnerWaits(const LockWait& wait) {
  CurrentWait& current = thread_state.current_wait;
  if (current.wait == StateOf(&wait)) current.covers_inner = true;
}

void ContinueWait(const CallerRegisters& caller, LockWait* opaque) {
  WaitState* wait = StateOf(opaque);
  if (thread_state.current_wait.wait != wait) return;  // dropped as abandoned, or forked meanwhile
  wait->chance = 1;
  wait->sampled = true;
  if (wait->capture_end_ns == 0)
    CaptureWait(caller, wait);  // a row that is only known from another wait is not good enough
  else if (SharedTable* table = CurrentTable())
    NoteOngoing(table, *wait);
}

void EnterWait(bool free_now, LockWait* opaque) {
  WaitState* wait = StateOf(opaque);
  const int64_t start = wait->capture_start_ns, end = wait->capture_end_ns;
  if (start == 0) return;
  EndPreparing(thread_state);
  wait->capture_start_ns = 0;
  if (!free_now) return;
  // It was released when its holder recorded so; if that is not known, in the middle of the capture.
  int64_t came_free = start + (end - start) / 2;
  if (wait->slot != nullptr) {
    const int64_t released = wait->slot->settled_ns.load(std::memory_order_relaxed);
    if (released >= wait->start_ns) came_free = released < start ? start : released < end ? released : end;
  }
  wait->start_ns += end - came_free;
  if (wait->slot != nullptr) DelayWaiter(wait->slot, end - came_free);
  ThreadState& thread = thread_state;
  if (thread.current_wait.wait != wait) return;
  thread.current_wait.start_ns = wait->start_ns;
  NoteCurrent(thread);
  if (SharedTable* table = CurrentTable()) NoteOngoing(table, *wait);
}

void EndWait(LockWait* opaque, bool acquired) {
  WaitState* wait = StateOf(opaque);
  SharedTable* table = CurrentTable();
  if (!wait->active || table == nullptr) return;  // null: forked meanwhile, in a signal handler
  ThreadState& thread = thread_state;
  int64_t end_ns = MonotonicNs();
  if (end_ns < wait->start_ns) end_ns = wait->start_ns;
  if (wait->slot != nullptr && acquired && IsRwlock(wait->kind)) AttributeToLastReader(table, thread, wait->slot);
  if (!LeaveCurrent(thread, wait, end_ns)) return;  // it was dropped as abandoned, and counted
  EndOngoing(*wait, end_ns, acquired);
  EndedWait ended = Ended(*wait, static_cast<uint64_t>(end_ns - wait->start_ns));
  ended.acquired = acquired;
  bool will_unlock = false;
  if (LockSlot* slot = wait->slot) {
    ended.waited_ns += static_cast<uint64_t>(LengthenLastWait(slot));
    if (acquired) ended.gap_ns = static_cast<uint64_t>(Settle(slot, &end_ns));
    if (wait->kind == WaitKind::kFutex && WaitersOf(*slot) == 0) {
      AddLeftover(table, thread, VisitIdleSlot(slot, wait->holder, kOneVisitIn));
    }
    if (wait->row != nullptr) RowOfWaiter(slot, thread).store(0, std::memory_order_relaxed);
    will_unlock = acquired && TableOf(wait->kind) == kHeldTable;
  } else if (HasHolder(wait->kind)) {
    ended.gap_ns = ended.waited_ns;  // without a slot it cannot be attributed
  }
  if (will_unlock && ended.waited_ns < kPublishAtOnceNs && thread.ended_wait.publishing == Publishing::kNone) {
    thread.ended_wait.publishing = Publishing::kBusy;
    std::atomic_signal_fence(std::memory_order_acq_rel);
    thread.ended_wait = ended;
    std::atomic_signal_fence(std::memory_order_release);
    thread.ended_wait.publishing = Publishing::kDue;
    thread.fast_unlocks = 0;
    if (wait->slot != nullptr) wait->slot->visits.store(kSumsDue, std::memory_order_relaxed);
  } else {
    Publish(table, thread, ended);
  }
}

void PublishWaitSlow() {
  ThreadState& thread = thread_state;
  SharedTable* table = CurrentTable();
  if (!EnterSlow(thread) || table == nullptr) return;  // forked meanwhile
  // In one instruction, so that a signal handler that comes now does not publish it again.
  auto due = static_cast<uint8_t>(Publishing::kDue);
  if (!__atomic_compare_exchange_n(reinterpret_cast<uint8_t*>(&thread.ended_wait.publishing), &due,
                                   static_cast<uint8_t>(Publishing::kBusy), false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
    return;
  std::atomic_signal_fence(std::memory_order_acquire);
  const EndedWait ended = thread.ended_wait;
  std::atomic_signal_fence(std::memory_order_acq_rel);
  thread.fast_unlocks = kOneVisitIn - 1;
  thread.ended_wait.publishing = Publishing::kNone;
  Publish(table, thread, ended);
}

void DropWait(LockWait* opaque) {
  WaitState* wait = StateOf(opaque);
  SharedTable* table = CurrentTable();
  if (!wait->active || table == nullptr || !LeaveCurrent(thread_state, wait, wait->start_ns)) return;
  EndOngoing(*wait, wait->start_ns, false);
  if (wait->slot == nullptr) return;
  if (wait->row != nullptr) RowOfWaiter(wait->slot, thread_state).store(0, std::memory_order_relaxed);
  if (wait->kind == WaitKind::kCondition) TidyWokenSlot(wait->slot, wait->holder, wait->start_ns);
}

bool CanRead(const void* address) { return PageReadable(reinterpret_cast<uintptr_t>(address)); }

}  // namespace holdfast
