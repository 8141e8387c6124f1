// The holders of contended locks. Read sampler/hot_path/lock_slots.h first: it has the formula and two drawings. The
// counter gap_ns holds the hand-off delays, during which nobody held the lock.
#include <errno.h>

#include "sampler/capture/sample_stack.h"
#include "sampler/hot_path/own_floats.h"
#include "sampler/process/enter.h"
#include "sampler/process/process.h"
#include "sampler/record/holds.h"
#include "sampler/record/lock_records.h"
#include "sampler/record/lock_sampling.h"
#include "sampler/record/ongoing_waits.h"
#include "sampler/record/wait_internal.h"

namespace holdfast {
namespace {

// After a hold with this much waiting, check whether all waiters still live.
constexpr int64_t kLookForTheDeadNs = 10'000'000;

// The process that owns this memory: a vfork child has its own id, and none of these threads.
bool IsDead(int thread_id) { return RawSyscall(SYS_tgkill, process.pid, thread_id, 0) == -ESRCH; }

// A thread that died in a wait without reporting it, for example because a signal handler made the system call exit,
// would count as a waiter for ever. Nobody knows when it died, so its wait ends where this hold began (since_ns).
void TakeOutTheDead(SharedTable* table, ThreadState& thread, LockHold* hold) {
  LockSlots* slots = lock_slots.load(std::memory_order_acquire);
  if (slots == nullptr || no_system_calls.load(std::memory_order_relaxed)) return;
  for (WaitingThread& waiting : slots->threads) {
    int id = waiting.thread_id.load(std::memory_order_acquire);
    if (id == 0) continue;
    LockSlot* slot = waiting.slot.load(std::memory_order_relaxed);
    const auto kind = static_cast<WaitKind>(waiting.kind.load(std::memory_order_relaxed));
    const int64_t start_ns = waiting.start_ns.load(std::memory_order_relaxed);
    const bool of_condition =
        kind == WaitKind::kCondition &&
        reinterpret_cast<uint64_t>(slot->mutex.load(std::memory_order_relaxed)) == LockOfSlot(hold->slot);
    if ((slot != hold->slot && !of_condition) || !IsDead(id)) continue;
    // Only one thread removes it.
    if (!waiting.thread_id.compare_exchange_strong(id, 0, std::memory_order_relaxed)) continue;
    const Offset row = DropOngoingOf(table, id);
    const int64_t end_ns = start_ns > hold->since_ns ? start_ns : hold->since_ns;
    int64_t attributed_from_ns = end_ns;
    LockCounters& counters = LockCountersOf(table, thread);
    if (of_condition) {
      const DroppedSignal signal = DropSignal(slot, hold->until_ns, hold->since_ns);
      attributed_from_ns = signal.end_ns != 0 && signal.end_ns < hold->until_ns ? signal.end_ns : hold->until_ns;
      if (signal.end_ns > signal.start_ns)
        AddDroppedSignal(table, thread, slot->mutex.load(std::memory_order_relaxed),
                         static_cast<uint64_t>(signal.end_ns - signal.start_ns));
      RemoveWaiter(slot, end_ns);
      TidyWokenSlot(slot, reinterpret_cast<const void*>(LockOfSlot(slot)), end_ns);
    } else {
      RemoveWaiter(slot, end_ns);
    }
    Unsettle(hold->slot, hold->until_ns - attributed_from_ns);
    hold->attributed_ns -= hold->until_ns - attributed_from_ns;
    const auto waited_ns = static_cast<uint64_t>(end_ns - start_ns);
    AddToCounters(counters, kind, waited_ns, false);
    LockRecord* record = FindLockRecord(table, reinterpret_cast<const void*>(LockOfSlot(slot)), kind);
    AddToRecord(table, record, waited_ns);
    AddToRow(table, thread, kind, record, row, waited_ns, Adds::kAlsoOneWait);
  }
}

// Returns at most the time since the last settlement, and at most the time waited. The start that the slot gave may be
// that of an earlier waiter, or be in the future if a signal added the waiter.
int64_t HeldNs(const LockHold& hold) {
  int64_t held_ns = hold.held_ns;
  if (held_ns > hold.until_ns - hold.since_ns) held_ns = hold.until_ns - hold.since_ns;
  if (held_ns > hold.attributed_ns) held_ns = hold.attributed_ns;
  return held_ns > 0 ? held_ns : 0;
}

void AddHold(SharedTable* table, LockRecord* record, uint64_t attributed_ns, uint64_t held_ns, uint64_t alone_ns) {
  record->holds.fetch_add(1, std::memory_order_relaxed);
  AddTo(table, &record->hold_ns, attributed_ns);
  AddTo(table, &record->held_ns, held_ns);
  if (alone_ns != 0) AddTo(table, &record->alone_ns, alone_ns < held_ns ? alone_ns : held_ns);
  RaiseTo(&record->longest_held_ns, held_ns);
  AddTime(table, &record->hold_times, held_ns, 1);
}

// Ends the current period with a single reader. Returns SlotReaders::alone_ns.
uint64_t AloneUntil(SlotReaders& readers, int64_t now_ns) {
  const int64_t since_ns = readers.alone_since_ns.exchange(0, std::memory_order_relaxed);
  const auto stretch_ns = static_cast<uint64_t>(since_ns != 0 && now_ns > since_ns ? now_ns - since_ns : 0);
  return readers.alone_ns.fetch_add(stretch_ns, std::memory_order_relaxed) + stretch_ns;
}

// The arrival of a reader, in one 64-bit word: a hash of the lock (24 bits, never 0), and the low 40 bits of alone_ns,
// which wrap after 18 minutes.
constexpr int kArrivalTimeBits = 40, kLockHashBits = 64 - kArrivalTimeBits;
constexpr uint64_t kArrivalTimeMask = (uint64_t{1} << kArrivalTimeBits) - 1;
uint64_t LockHash(const void* lock) {
  return reinterpret_cast<uintptr_t>(lock) * 0x9e3779b97f4a7c15 >> (64 - kLockHashBits) | 1;
}
uint64_t PackArrival(const void* lock, uint64_t alone_ns) {
  return LockHash(lock) << kArrivalTimeBits | (alone_ns & kArrivalTimeMask);
}
std::atomic<uint64_t>* ArrivalOf(int thread_id) {
  LockSlots* slots = lock_slots.load(std::memory_order_acquire);
  if (slots == nullptr || thread_id == 0) return nullptr;
  return &slots->threads[static_cast<uint32_t>(thread_id) % kWaitingThreads].arrival;
}

// Returns how long in total the last reader, which unlocks at `now_ns`, was the only one since it came, or since the
// first waiting writer came if that was later.
int64_t EndAlone(SlotReaders& readers, const void* lock, int64_t now_ns) {
  const uint64_t alone_ns = AloneUntil(readers, now_ns);
  const uint64_t since_first_ns = alone_ns - readers.first_alone_ns.load(std::memory_order_relaxed);
  const std::atomic<uint64_t>* arrival = ArrivalOf(ThreadId());
  const uint64_t word = arrival != nullptr ? arrival->load(std::memory_order_relaxed) : 0;
  uint64_t own_ns = since_first_ns;
  if (word >> kArrivalTimeBits == LockHash(lock)) own_ns = (alone_ns - word) & kArrivalTimeMask;
  return static_cast<int64_t>(own_ns < since_first_ns ? own_ns : since_first_ns);
}

// Divides the hold among its known waiters.
void AddPairs(SharedTable* table, Row* row, const LockHold& hold, const Weight& weight) {
  uint64_t known = 0;
  for (const Offset waiter : hold.waiters) known += waiter != 0;
  const Offset holder = table->OffsetOf(row);
  if (known == 0) AddToPair(table, FindLockPair(table, holder, 0, hold.record), weight, 1);
  for (const Offset waiter : hold.waiters) {
    if (waiter != 0) AddToPair(table, FindLockPair(table, holder, waiter, hold.record), weight, known);
  }
}

// Adds a hold to the sums. Returns the interval if a sample is due, else 0.
uint64_t CountHold(SharedTable* table, ThreadState& thread, const LockHold& hold) {
  const auto attributed = static_cast<uint64_t>(hold.attributed_ns);
  if (hold.record != nullptr) {
    AddHold(table, hold.record, attributed, static_cast<uint64_t>(HeldNs(hold)), static_cast<uint64_t>(hold.alone_ns));
  }
  LockCounters& counters = LockCountersOf(table, thread);
  Count(counters.holds, hold.kind, 1);
  Count(counters.hold_ns, hold.kind, attributed);
  const uint64_t interval = PrepareLockCountdown(table, &thread.hold_countdown, &thread.hold_index, &thread.random);
  if (interval == 0 || !Wanted(table, ProfileKind::kMutex)) return 0;
  thread.hold_countdown -= hold.attributed_ns;
  return thread.hold_countdown > 0 ? 0 : interval;
}

Row* RowOfHolder(SharedTable* table, ThreadState& thread, const CallerRegisters& caller, WaitKind kind,
                 const LockRecord* record) {
  return FindLockRow(table, SampleStack(table, thread, caller), ProfileKind::kMutex, kind, record);
}

void SampleHold(SharedTable* table, ThreadState& thread, const LockHold& hold, uint64_t interval, Row* row) {
  const auto attributed = static_cast<uint64_t>(hold.attributed_ns);
  LockCountersOf(table, thread).hold_samples.fetch_add(1, std::memory_order_relaxed);
  const OwnFloats floats;
  const Weight weight = WeightOf(attributed, interval);
  const int64_t held_ns = HeldNs(hold), alone_ns = hold.alone_ns < held_ns ? hold.alone_ns : held_ns;
  AddLockSample(table, row, attributed, static_cast<uint64_t>(held_ns), weight);
  if (alone_ns > 0) {
    const double share = static_cast<double>(alone_ns) / static_cast<double>(held_ns);
    AddTo(table, &row->sums[kAlone], static_cast<uint64_t>(static_cast<double>(weight.amount) * share));
  }
  if (hold.record != nullptr) AddPairs(table, row, hold, weight);
}

// In a child forked meanwhile the slots are empty, or gone: see ForgetLockSlots.
void EndReaderUnlock(LockSlot* slot) {
  if (lock_slots.load(std::memory_order_relaxed) == nullptr) return;
  std::atomic<uint32_t>& leaving = ReadersOf(slot).leaving;
  if (leaving.load(std::memory_order_relaxed) != 0) leaving.fetch_sub(1, std::memory_order_release);
}

}  // namespace

void AddLeftover(SharedTable* table, ThreadState& thread, const Leftover& left) {
  if (left.ns == 0 || left.of_condition) return;  // nobody holds a condition
  const WaitKind kind_by_table = left.table == kHeldTable ? WaitKind::kMutex : WaitKind::kFutex;
  LockRecord* record = left.record != 0 ? table->At<LockRecord>(left.record) : nullptr;
  const WaitKind kind = record != nullptr ? record->kind : kind_by_table;
  LockCounters& counters = LockCountersOf(table, thread);
  if (left.ns > 0) return Count(counters.gap_ns, kind, static_cast<uint64_t>(left.ns));
  // Negative: holders were charged more than was waited (see LengthenLastWait). The missing time is added without a
  // stack, because its waiter is no longer known.
  const auto waited_ns = static_cast<uint64_t>(-left.ns);
  Count(counters.wait_ns, kind, waited_ns);
  if (record != nullptr) AddTo(table, &record->wait_ns, waited_ns);
  AddToRow(table, thread, kind, record, 0, waited_ns, Adds::kOnlyTime);
}

LockSlot* ClaimSlotAndCount(SharedTable* table, ThreadState& thread, const void* lock, SlotTable slots) {
  Leftover left;
  LockSlot* slot = ClaimSlot(lock, slots, &left);
  AddLeftover(table, thread, left);
  return slot;
}

// Null: nothing to do for this unlock.
static LockSlot* SlotToLeave(const void* lock, WaitKind kind, LockHold* hold) {
  ThreadState& thread = thread_state;
  *hold = {};
  if (no_clock.load(std::memory_order_relaxed) || !EnterSlow(thread)) return nullptr;
  SharedTable* table = CurrentTable();
  if (table == nullptr) return nullptr;
  const void* frame = hold;  // a local variable of the caller: shows where this thread's stack is now
  DropAbandonedWait(table, thread, frame);
  LockSlot* slot = FindSlot(lock, TableOf(kind));
  if (slot != nullptr && (slot->visits.load(std::memory_order_relaxed) & kSumsDue) != 0)
    slot->visits.fetch_and(~kSumsDue, std::memory_order_relaxed);
  return slot;
}

// Copies what the slot knows about the hold that was just settled: waiters, record, length.
static void FillHold(SharedTable* table, LockSlot* slot, WaitKind kind, LockHold* hold) {
  hold->slot = slot;
  hold->held_ns = WaitedForNs(*slot, hold->until_ns);
  hold->kind = kind;
  const Offset record = slot->record.load(std::memory_order_relaxed);
  if (record != 0) hold->record = table->At<LockRecord>(record);
  for (int i = 0; i < kSlotWaiters; ++i) hold->waiters[i] = slot->waiters[i].load(std::memory_order_relaxed);
}

static void SettleHold(SharedTable* table, const void* lock, LockSlot* slot, WaitKind kind, LockHold* hold) {
  hold->since_ns = slot->settled_ns.load(std::memory_order_relaxed);
  hold->attributed_ns = Settle(slot, &hold->until_ns);
  if (hold->attributed_ns != 0) return FillHold(table, slot, kind, hold);
  // Nobody waited, so Settle did not read the clock. Every such unlock comes here, so it counts once.
  if (hold->until_ns == 0) AddLeftover(table, thread_state, VisitIdleSlot(slot, lock, 1));
}

void BeginUnlock(const void* lock, WaitKind kind, bool sleepers, LockHold* hold) {
  LockSlot* slot = SlotToLeave(lock, kind, hold);
  if (slot == nullptr) return;
  SharedTable* table = CurrentTable();
  if (!sleepers && __atomic_load_n(&lock_preparing, __ATOMIC_RELAXED) == 0) {
    if (WaitersOf(*slot) != 0) return;  // woken, and on their way
    AddLeftover(table, thread_state, VisitIdleSlot(slot, lock, kOneVisitIn));
    return;
  }
  // Settle now: after the real unlock the slot may belong to another lock. EndUnlock does all else.
  SettleHold(table, lock, slot, kind, hold);
}

void AfterUnlock(const void* lock) {
  ThreadState& thread = thread_state;
  // MayUnlockFast counts fast_unlocks down. Below zero it wraps to 65,535: this thread's fast unlocks are used up.
  // Otherwise the unlock came here for another reason.
  const bool ran_out = thread.fast_unlocks > kOneVisitIn;
  const bool due = thread.ended_wait.publishing == Publishing::kDue;
  // The first word of musl's recursive mutexes always looks calm.
  const bool looks_calm_wrongly = process.libc == Libc::kMusl;
  if (ran_out) thread.fast_unlocks = due || looks_calm_wrongly ? 0 : kOneVisitIn - 1;
  if (CurrentTable() == nullptr || !EnterSlow(thread)) return;
  if (due) {
    PublishWaitSlow();
    if (LockSlot* slot = FindSlot(lock, kHeldTable)) slot->visits.fetch_and(~kSumsDue, std::memory_order_relaxed);
    return;
  }
  const uint16_t before = thread.slot_turn;
  thread.slot_turn = static_cast<uint16_t>(before + (ran_out ? kOneVisitIn : 1));
  const uint32_t turn = thread.slot_turn / kOneVisitIn;
  if (turn != before / kOneVisitIn) FreeIdleSlots(turn);
}

void EndUnlock(const CallerRegisters& caller, bool succeeded, LockHold* hold) {
  PublishWait();
  SharedTable* table = CurrentTable();
  if (hold->leaving != nullptr) EndReaderUnlock(hold->leaving);
  if (hold->slot == nullptr || table == nullptr) return;
  if (!succeeded)
    return Unsettle(hold->slot, hold->attributed_ns);  // not its lock: the time remains for the real holder
  ThreadState& thread = thread_state;
  if (!EnterSlow(thread)) return;
  if (UNLIKELY(hold->attributed_ns >= kLookForTheDeadNs)) TakeOutTheDead(table, thread, hold);
  if (hold->attributed_ns <= 0) return;
  const uint64_t interval = CountHold(table, thread, *hold);
  if (interval == 0) return;
  Mute(thread);
  const OwnTime own_time(table, thread);
  SampleHold(table, thread, *hold, interval, RowOfHolder(table, thread, caller, hold->kind, hold->record));
  own_time.Add();
  Unmute(thread);
}

void BeginReaderUnlock(const void* lock, LockHold* hold) {
  LockSlot* slot = SlotToLeave(lock, WaitKind::kRwlockRead, hold);
  if (slot == nullptr) return;
  hold->leaving = slot;
  // Sequentially consistent: the caller reads the lock's word afterwards.
  ReadersOf(slot).leaving.fetch_add(1, std::memory_order_seq_cst);
}

void SettleReader(const CallerRegisters& caller, const void* lock, uint32_t readers, LockHold* hold) {
  LockSlot* slot = hold->leaving;
  SharedTable* table = CurrentTable();
  if (slot == nullptr || table == nullptr) return;
  ThreadState& thread = thread_state;
  SlotReaders& shared = ReadersOf(slot);
  if (readers <= 1) {
    SettleHold(table, lock, slot, WaitKind::kRwlockRead, hold);
    if (hold->attributed_ns != 0) hold->alone_ns = EndAlone(shared, lock, hold->until_ns);
    return;
  }
  if (WaitersOf(*slot) == 0) return AddLeftover(table, thread, VisitIdleSlot(slot, lock, 1));
  const int64_t now_ns = MonotonicNs();
  // The other of two readers is now alone.
  if (readers == 2) shared.alone_since_ns.store(now_ns, std::memory_order_relaxed);
  if (readers > shared.leaving.load(std::memory_order_relaxed)) return;
  const Offset record = slot->record.load(std::memory_order_relaxed);
  Mute(thread);
  const OwnTime own_time(table, thread);
  const Row* row =
      RowOfHolder(table, thread, caller, WaitKind::kRwlockRead, record != 0 ? table->At<LockRecord>(record) : nullptr);
  own_time.Add();
  Unmute(thread);
  shared.row.store(table->OffsetOf(row), std::memory_order_relaxed);
  shared.last_ns.store(now_ns, std::memory_order_release);
}

void AttributeToLastReader(SharedTable* table, ThreadState& thread, LockSlot* slot) {
  SlotReaders& shared = ReadersOf(slot);
  if (LIKELY(shared.last_ns.load(std::memory_order_relaxed) == 0)) return;
  LockHold hold{};
  hold.until_ns = shared.last_ns.exchange(0, std::memory_order_acquire);
  hold.since_ns = slot->settled_ns.load(std::memory_order_relaxed);
  if (hold.until_ns <= hold.since_ns) return;  // a later reader was the last
  hold.attributed_ns = Settle(slot, &hold.until_ns);
  if (hold.attributed_ns == 0) return;
  FillHold(table, slot, WaitKind::kRwlockRead, &hold);
  const Offset row = shared.row.load(std::memory_order_relaxed);
  if (const uint64_t interval = CountHold(table, thread, hold); interval != 0 && row != 0)
    SampleHold(table, thread, hold, interval, table->At<Row>(row));
}

void NoteReaderCame(const void* lock, uint32_t readers) {
  ThreadState& thread = thread_state;
  LockSlot* slot = FindSlot(lock, kHeldTable);
  if (slot == nullptr || WaitersOf(*slot) == 0 || no_clock.load(std::memory_order_relaxed) || !EnterSlow(thread))
    return;
  SlotReaders& shared = ReadersOf(slot);
  const int64_t now_ns = MonotonicNs();
  const uint64_t alone_ns = AloneUntil(shared, now_ns);
  if (readers == 1) shared.alone_since_ns.store(now_ns, std::memory_order_relaxed);
  if (std::atomic<uint64_t>* arrival = ArrivalOf(ThreadId()))
    arrival->store(PackArrival(lock, alone_ns), std::memory_order_relaxed);
}

void NoteReadersAtWait(const LockWait& wait, uint32_t readers) {
  const WaitState& state = *StateOf(&wait);
  if (state.slot == nullptr || WaitersOf(*state.slot) != 1) return;
  SlotReaders& shared = ReadersOf(state.slot);
  shared.first_alone_ns.store(shared.alone_ns.load(std::memory_order_relaxed), std::memory_order_relaxed);
  shared.alone_since_ns.store(readers == 1 ? state.start_ns : 0, std::memory_order_relaxed);
}

void SettleLocks() {
  PublishWait();
  SharedTable* table = CurrentTable();
  LockSlots* slots = lock_slots.load(std::memory_order_acquire);
  if (table == nullptr || slots == nullptr) return;
  for (uint32_t place = 0; place < kSlotTables * kLockSets * kKeysInSet; ++place) {
    LockSlot& slot = *(&slots->slots[0][0][0] + place);
    if (WaitersOf(slot) == 0) AddLeftover(table, thread_state, LeftoverOf(&slot));
  }
}

}  // namespace holdfast
