#include "sampler/hot_path/lock_slots.h"

#include "sampler/contract/clock.h"
#include "sampler/contract/own_memory.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {

HOLDFAST_HOT_DATA constinit uint32_t locks_not_ready = 1;
constinit LockWatch lock_watch[kSlotTables] = {{kNotReady}, {kNotReady}};
constinit uint32_t lock_preparing = 1;
constinit std::atomic<uint8_t> lock_set_used[kSlotTables][kLockSets] = {};
constinit std::atomic<LockSlots*> lock_slots{nullptr};

namespace {

// A lock without waiters keeps its slot for this many visits, so that the words that every lock reads are rarely
// written.
constexpr uint32_t kIdleVisits = 256;
// W may be this far below the mark: an amount that others have settled meanwhile, or that is being taken back (see
// TakeOutTheDead). A larger difference is real waiting.
constexpr uint64_t kMaxLagNs = uint64_t{1} << 46;
// Attempts of a claim before it gives up: about 100 µs, if no other thread wants to run. kLooks: reads of a full set,
// or of a key that others are about to free.
constexpr int kClaimTries = 2000, kLooks = 3;

// Guards the making of keys, so that no lock has two slots. Every wait for it is bounded.
constinit std::atomic<bool> claiming{false};

uint64_t KeyOf(const void* lock) { return reinterpret_cast<uintptr_t>(lock); }
uint64_t Waiter(int64_t at_ns) { return static_cast<uint64_t>(at_ns) << kWaitersBits | 1; }

// W at `now_ns`, modulo 2^50.
constexpr uint64_t kIntegralMask = ~uint64_t{0} >> kWaitersBits;
uint64_t IntegralAt(uint64_t waiting, int64_t now_ns) {
  return ((waiting & kWaitersMask) * static_cast<uint64_t>(now_ns) - (waiting >> kWaitersBits)) & kIntegralMask;
}
// Returns the waiting from the mark up to `integral`; 0: others have settled it.
int64_t Since(uint64_t mark, uint64_t integral) {
  const uint64_t ns = (integral - mark) & kIntegralMask;
  return ns > kIntegralMask - kMaxLagNs ? 0 : static_cast<int64_t>(ns);
}

// For a slot without waiters: returns waiting that was not attributed, or (negative) attributed but not waited. The
// latter happens when a waiter leaves at a time before a holder's reading of the clock; otherwise the next wait
// compensates for it. Returns nothing if a thread waits after all; it will see that the slot is gone (AddWaiters). W is
// not known then and does not change.
int64_t SettleForGood(LockSlot* slot) {
  const uint64_t waiting = slot->waiting.load(std::memory_order_acquire);
  if ((waiting & kWaitersMask) != 0) return 0;
  const uint64_t integral = IntegralAt(waiting, 0);
  const uint64_t ns = (integral - slot->mark.exchange(integral, std::memory_order_relaxed)) & kIntegralMask;
  return static_cast<int64_t>(ns) - (ns > kIntegralMask - kMaxLagNs ? static_cast<int64_t>(kIntegralMask) + 1 : 0);
}

std::atomic<uint64_t>* KeyOfSlot(LockSlot* slot) {
  LockSlots* all = lock_slots.load(std::memory_order_relaxed);
  return &all->keys[0][0][0] + (slot - &all->slots[0][0][0]);
}

LockSlots* GetSlots() {
  LockSlots* found = lock_slots.load(std::memory_order_acquire);
  if (LIKELY(found != nullptr)) return found;
  if (no_system_calls.load(std::memory_order_relaxed)) return nullptr;
  auto* made = static_cast<LockSlots*>(MapLazily(sizeof(LockSlots)));
  if (made == nullptr) return nullptr;
  if (lock_slots.compare_exchange_strong(found, made, std::memory_order_acq_rel)) {
    NoteOwnMemory(made, sizeof(LockSlots));
    return made;
  }
  RawSyscall(SYS_munmap, made, sizeof(LockSlots));
  return found;
}

// Makes the key busy, unless a thread waits, or a signal is left that counts as a waiter elsewhere. Sequentially
// consistent, as in AddWaiters: either the waiter is seen here, or the waiter sees that the slot is being freed.
bool TakeIdleKey(std::atomic<uint64_t>* key, const LockSlot& slot) {
  uint64_t lock = key->load(std::memory_order_relaxed) & ~LockSlots::kBusy;
  if (lock == 0 || !key->compare_exchange_strong(lock, lock | LockSlots::kBusy, std::memory_order_seq_cst))
    return false;
  if (((slot.waiting.load(std::memory_order_seq_cst) | slot.signalled.load(std::memory_order_seq_cst)) &
       kWaitersMask) == 0)
    return true;
  key->store(lock, std::memory_order_release);
  return false;
}

// The caller has made this key of `all` busy.
void GiveUp(LockSlots* all, std::atomic<uint64_t>* key) {
  if (lock_slots.load(std::memory_order_relaxed) != all) return;  // forked meanwhile, in a signal handler
  const auto set = static_cast<uint32_t>((key - &all->keys[0][0][0]) / kKeysInSet);
  key->store(0, std::memory_order_release);
  lock_set_used[set / kLockSets][set % kLockSets].fetch_sub(1, std::memory_order_relaxed);
  __atomic_fetch_sub(&lock_watch[set / kLockSets].taken, 1, __ATOMIC_RELAXED);
}

// The caller holds `claiming`.
LockSlot* ClaimGuarded(LockSlots* all, SlotTable table, uint32_t set, const void* lock, Leftover* left) {
  int free = -1, idle = -1;
  for (uint32_t i = 0; i < kKeysInSet; ++i) {
    const uint64_t key = all->keys[table][set][i].load(std::memory_order_acquire);
    if ((key & ~LockSlots::kBusy) == KeyOf(lock)) return key == KeyOf(lock) ? &all->slots[table][set][i] : nullptr;
    if (key == 0) free = static_cast<int>(i);
    if (key != 0 && WaitersOf(all->slots[table][set][i]) == 0) idle = static_cast<int>(i);
  }
  // Makes room: evicts a lock without waiters; its memory may be gone.
  const bool evicts = free < 0;
  if (evicts) {
    free = idle;
    if (idle < 0 || !TakeIdleKey(&all->keys[table][set][idle], all->slots[table][set][idle])) return nullptr;
  }
  LockSlot& slot = all->slots[table][set][free];
  // A thread that found the slot's former key is about to see that the key is gone.
  if (WaitersOf(slot) != 0) {
    if (evicts) all->keys[table][set][free].fetch_and(~LockSlots::kBusy, std::memory_order_release);
    return nullptr;
  }
  // W continues: a holder of the slot's former lock may still be about to settle.
  *left = LeftoverOf(&slot);
  slot.settled_ns.store(0, std::memory_order_relaxed);
  slot.visits.store(0, std::memory_order_relaxed);
  slot.record.store(0, std::memory_order_relaxed);
  for (auto& waiter : slot.waiters) waiter.store(0, std::memory_order_relaxed);
  slot.signalled.store(0, std::memory_order_relaxed);
  slot.mutex.store(nullptr, std::memory_order_relaxed);
  all->keys[table][set][free].store(KeyOf(lock), std::memory_order_release);
  if (evicts) return &slot;
  lock_set_used[table][set].fetch_add(1, std::memory_order_relaxed);
  __atomic_fetch_add(&lock_watch[table].taken, 1, __ATOMIC_SEQ_CST);
  return &slot;
}

}  // namespace

void BeginWatchingLocks() {
  locks_not_ready = 0;
  lock_preparing = 0;
  for (LockWatch& watch : lock_watch) __atomic_fetch_and(&watch.taken, ~kNotReady, __ATOMIC_RELAXED);
}

void AlwaysLookSlowly() { locks_not_ready = 1; }

void ForgetLockSlots() {
  LockSlots* all = lock_slots.load(std::memory_order_relaxed);
  if (no_system_calls.load(std::memory_order_relaxed)) {
    lock_slots.store(nullptr, std::memory_order_relaxed);
  } else if (all != nullptr) {
    EmptyPages(all, sizeof(LockSlots));
  }
  for (int table = 0; table < kSlotTables && all != nullptr; ++table) {
    for (auto& used : lock_set_used[table]) used.store(0, std::memory_order_relaxed);
    __atomic_store_n(&lock_watch[table].taken, 0, __ATOMIC_RELAXED);
  }
  __atomic_store_n(&lock_preparing, 0, __ATOMIC_RELAXED);
  claiming.store(false, std::memory_order_relaxed);
}

LockSlot* FindSlot(const void* lock, SlotTable table) {
  LockSlots* all = lock_slots.load(std::memory_order_acquire);
  // No lock is at null, the key of an empty slot.
  if (all == nullptr || lock == nullptr) return nullptr;
  const uint32_t set = LockSetOf(lock);
  for (uint32_t i = 0; i < kKeysInSet; ++i) {
    // Acquire: makes the claimer's writes to the slot visible.
    if (all->keys[table][set][i].load(std::memory_order_acquire) == KeyOf(lock)) return &all->slots[table][set][i];
  }
  return nullptr;
}

uint64_t LockOfSlot(LockSlot* slot) { return KeyOfSlot(slot)->load(std::memory_order_relaxed) & ~LockSlots::kBusy; }

void NoteWaiting(int thread_id, WaitKind kind, LockSlot* slot, int64_t start_ns) {
  LockSlots* all = lock_slots.load(std::memory_order_relaxed);
  if (all == nullptr || thread_id == 0) return;
  WaitingThread& waiting = all->threads[static_cast<uint32_t>(thread_id) % kWaitingThreads];
  const int noted = waiting.thread_id.load(std::memory_order_relaxed);
  if (noted != 0 && noted != thread_id) return;
  if (slot == nullptr) return waiting.thread_id.store(0, std::memory_order_relaxed);
  waiting.kind.store(static_cast<uint32_t>(kind), std::memory_order_relaxed);
  waiting.slot.store(slot, std::memory_order_relaxed);
  waiting.start_ns.store(start_ns, std::memory_order_relaxed);
  // Release: a thread that finds this id, of a dead thread, also finds what it waited for.
  waiting.thread_id.store(thread_id, std::memory_order_release);
}

KnownWait* KnownWaitAt(int thread_id, uint64_t call_site) {
  LockSlots* all = GetSlots();
  if (all == nullptr || thread_id == 0) return nullptr;
  return &all->threads[static_cast<uint32_t>(thread_id) % kWaitingThreads].known[call_site % kKnownWaits];
}

Leftover LeftoverOf(LockSlot* slot) {
  const auto number = slot - &lock_slots.load(std::memory_order_relaxed)->slots[0][0][0];
  return {.ns = SettleForGood(slot),
          .table = number < kLockSets * kKeysInSet ? kHeldTable : kWokenTable,
          .record = slot->record.load(std::memory_order_relaxed),
          .of_condition = slot->mutex.load(std::memory_order_relaxed) != nullptr};
}

LockSlot* ClaimSlot(const void* lock, SlotTable table, Leftover* left) {
  *left = {};
  if (lock == nullptr) return nullptr;
  if (LockSlot* found = FindSlot(lock, table)) return found;
  LockSlots* all = GetSlots();
  if (all == nullptr) return nullptr;
  int looks = 0;
  for (int i = 0; i < kClaimTries; ++i) {
    if (!claiming.load(std::memory_order_relaxed)) {
      const SignalsBlocked blocked;
      if (!claiming.exchange(true, std::memory_order_acquire)) {
        LockSlot* slot = ClaimGuarded(all, table, LockSetOf(lock), lock, left);
        claiming.store(false, std::memory_order_release);
        if (slot != nullptr || ++looks == kLooks) return slot;
      }
    }
    // Another thread needs a few instructions, but may have been preempted.
    if (i % 8 != 7 || no_system_calls.load(std::memory_order_relaxed)) {
      SpinPause();
    } else {
      RawSyscall(SYS_sched_yield);
    }
  }
  return nullptr;
}

bool AddWaiters(LockSlot* slot, const void* lock, WaitsFor what, int64_t start_ns, uint64_t count) {
  if (WaitersOf(*slot) + count > kMaxWaiters) return false;
  // Sequentially consistent: see TakeIdleKey.
  const uint64_t before = slot->waiting.fetch_add(count * Waiter(start_ns), std::memory_order_seq_cst);
  // The first waiter since the lock changed hands: waiters that gave up meanwhile have left time to be attributed. A
  // holder that reads the word too early finds an older time; it takes no more than was waited (HeldNs).
  if ((before & kWaitersMask) == 0 && what == WaitsFor::kLock &&
      Since(slot->mark.load(std::memory_order_relaxed), IntegralAt(before, 0)) == 0) {
    slot->signalled.store(static_cast<uint64_t>(start_ns) << kWaitersBits, std::memory_order_relaxed);
  }
  if (LIKELY(KeyOfSlot(slot)->load(std::memory_order_seq_cst) == KeyOf(lock))) {
    slot->visits.store(0, std::memory_order_relaxed);
    return true;
  }
  slot->waiting.fetch_sub(count * Waiter(start_ns), std::memory_order_relaxed);
  return false;
}

void RemoveWaiter(LockSlot* slot, int64_t end_ns) {
  slot->waiting.fetch_sub(Waiter(end_ns), std::memory_order_seq_cst);
}

int64_t LengthenLastWait(LockSlot* slot) {
  // Sequentially consistent, like the holder's read in Settle: one of the two sees the other's write.
  uint64_t waiting = slot->waiting.load(std::memory_order_seq_cst);
  while ((waiting & kWaitersMask) == 0) {
    const uint64_t ahead_ns = (slot->mark.load(std::memory_order_seq_cst) - IntegralAt(waiting, 0)) & kIntegralMask;
    if (ahead_ns == 0 || ahead_ns > kMaxLagNs) return 0;
    if (slot->waiting.compare_exchange_weak(waiting, waiting - (ahead_ns << kWaitersBits), std::memory_order_seq_cst))
      return static_cast<int64_t>(ahead_ns);
  }
  return 0;
}

SlotReaders& ReadersOf(LockSlot* slot) {
  LockSlots* all = lock_slots.load(std::memory_order_relaxed);
  return *(&all->readers[0][0] + (slot - &all->slots[kHeldTable][0][0]));
}

void DelayWaiter(LockSlot* slot, int64_t by_ns) {
  slot->waiting.fetch_add(static_cast<uint64_t>(by_ns) << kWaitersBits, std::memory_order_relaxed);
}

int64_t MeanStart(uint64_t word, int64_t now_ns) {
  // From their ages: the times themselves have more bits than the word (a machine that is up for 13 days). Signed: they
  // may be in the future.
  const int64_t ages_ns = static_cast<int64_t>(IntegralAt(word, now_ns) << kWaitersBits) >> kWaitersBits;
  return now_ns - ages_ns / static_cast<int64_t>(word & kWaitersMask);
}

// Returns waiting that was attributed beyond the time at which the last waiter left.
static int64_t GiveBackAhead(LockSlot* slot, int64_t most_ns) {
  // See LengthenLastWait. If both threads see each other, this much remains unattributed, and becomes hand-off delay.
  const uint64_t waiting = slot->waiting.load(std::memory_order_seq_cst);
  if (LIKELY((waiting & kWaitersMask) != 0)) return 0;
  const uint64_t ahead_ns = (slot->mark.load(std::memory_order_relaxed) - IntegralAt(waiting, 0)) & kIntegralMask;
  if (ahead_ns == 0 || ahead_ns > static_cast<uint64_t>(most_ns)) return 0;
  slot->mark.fetch_sub(ahead_ns, std::memory_order_relaxed);
  return static_cast<int64_t>(ahead_ns);
}

int64_t Settle(LockSlot* slot, int64_t* now_ns) {
  // Read the word before the clock: its waiters came before the time that is then read.
  const uint64_t waiting = slot->waiting.load(std::memory_order_acquire);
  uint64_t mark = slot->mark.load(std::memory_order_relaxed);
  // If all waiters have given up, W does not change; only the length of the hold needs the clock.
  if (*now_ns == 0 && ((waiting & kWaitersMask) != 0 || Since(mark, IntegralAt(waiting, 0)) != 0))
    *now_ns = MonotonicNs();
  if (*now_ns != 0) slot->settled_ns.store(*now_ns, std::memory_order_relaxed);
  const uint64_t integral = IntegralAt(waiting, *now_ns);
  int64_t attributed_ns = 0;
  do {
    attributed_ns = Since(mark, integral);
    if (attributed_ns == 0) return 0;
  } while (!slot->mark.compare_exchange_weak(mark, integral, std::memory_order_seq_cst, std::memory_order_relaxed));
  return attributed_ns - GiveBackAhead(slot, attributed_ns);
}

void Unsettle(LockSlot* slot, int64_t attributed_ns) {
  slot->mark.fetch_sub(static_cast<uint64_t>(attributed_ns), std::memory_order_relaxed);
}

Leftover VisitIdleSlot(LockSlot* slot, const void* lock, uint32_t visits) {
  if ((slot->visits.fetch_add(visits, std::memory_order_relaxed) & ~kSumsDue) < kIdleVisits) return {};
  LockSlots* all = lock_slots.load(std::memory_order_relaxed);
  std::atomic<uint64_t>* key = KeyOfSlot(slot);
  const SignalsBlocked blocked;
  if (key->load(std::memory_order_relaxed) != KeyOf(lock) || !TakeIdleKey(key, *slot)) return {};
  const Leftover left = LeftoverOf(slot);
  GiveUp(all, key);
  return left;
}

void FreeIdleSlots(uint32_t turn) {
  const uint32_t set = turn % kLockSets;
  if (LIKELY(lock_set_used[kHeldTable][set].load(std::memory_order_relaxed) == 0)) return;
  LockSlots* all = lock_slots.load(std::memory_order_acquire);
  if (all == nullptr || no_clock.load(std::memory_order_relaxed)) return;
  const int64_t now_ns = MonotonicNs();
  for (uint32_t i = 0; i < kKeysInSet; ++i) {
    LockSlot& slot = all->slots[kHeldTable][set][i];
    const auto idle = [&] {
      const uint64_t waiting = slot.waiting.load(std::memory_order_relaxed);
      const bool due = (slot.visits.load(std::memory_order_relaxed) & kSumsDue) != 0;
      return (waiting & kWaitersMask) == 0 &&
             slot.settled_ns.load(std::memory_order_relaxed) < now_ns - (due ? kIdleHeldNs : kIdleNs) &&
             Since(slot.mark.load(std::memory_order_relaxed), IntegralAt(waiting, 0)) == 0;
    };
    std::atomic<uint64_t>* key = &all->keys[kHeldTable][set][i];
    if (key->load(std::memory_order_acquire) == 0 || !idle()) continue;
    const SignalsBlocked blocked;
    if (!TakeIdleKey(key, slot)) continue;
    // Check again: the slot may have become another lock's meanwhile.
    if (idle())
      GiveUp(all, key);
    else
      key->fetch_and(~LockSlots::kBusy, std::memory_order_release);
  }
}

}  // namespace holdfast
