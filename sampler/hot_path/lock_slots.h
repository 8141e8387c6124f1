// Locks that a thread waits for now, or did a moment ago, and the waiting that their holders are charged.
//
//     sets[hash of the lock's address] → 8 keys (addresses), a cache line     LockSlot of each key, a cache line
//
// A slot keeps W, the integral of the number of waiters over time, in one word: with n waiters, the i-th of them since
// s_i, and with finished waits,
//
//     W(t) = n·t − S       S = Σ s_i − Σ lengths of finished waits      word = S << kWaitersBits | n
//
// so that a waiter comes by adding (s << kWaitersBits | 1) and goes at time e by subtracting (e << kWaitersBits | 1).
// `mark` is the W up to which waiting has been attributed. Settling attributes W − mark and moves the mark:
//
//     waiters    1 ├────────────────────┤                  W    ╱ slope 2
//     waiters    2        ├──────────────────┤                ╱
//     holder  A ──────┤unlock      B ├────────┤unlock       ╱ slope 1
//                      └ A: W−mark  └ delay      └ B: W−mark
//
// Two events settle: an unlock while a thread sleeps (attributed to the unlock's stack), and a waiter that gets the
// lock (the hand-off delay since the last unlock). A third thread may take the lock in between, while the woken thread
// is still on its way. Its unlock settles only if the woken thread has gone back to sleep; the delay until then (about
// 50 µs at most) is then charged to it. Otherwise such holds, all shorter than the delay, count as delay. So the many
// short holds of a contended lock read no clock.
//
// Sums telescope, so holders + hand-off delays = waiters, in whatever order the events come. A late reading never moves
// the mark backwards: nothing is attributed twice.
//
// Any thread, also in a signal handler. Lock-free except for claiming a slot (a waiter's slow path), which is bounded.
// If all slots are in use, or kMaxWaiters already wait, waiting is not attributed to holders, and that is counted.
// Times are nanoseconds of CLOCK_MONOTONIC, modulo 2^(64 − kWaitersBits). Up to 12 days of waiting in one hold, all
// waiters together, are correct (64 waiters: 4 hours). Beyond that, 13 days (2^50 ns) are missing from the sum.
#ifndef HOLDFAST_SAMPLER_HOT_PATH_LOCK_SLOTS_H_
#define HOLDFAST_SAMPLER_HOT_PATH_LOCK_SLOTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/layout.h"

namespace holdfast {

inline constexpr uint32_t kLockSets = 128;
inline constexpr uint32_t kKeysInSet = 8;
inline constexpr int kSlotWaiters = 4;
inline constexpr int kWaitersBits = 14;
inline constexpr uint64_t kWaitersMask = (uint64_t{1} << kWaitersBits) - 1;
// Later waiters are not counted: one too many would carry into the times. Threads that check at the same moment, each
// before any of them adds, may together exceed this limit.
inline constexpr uint64_t kMaxWaiters = kWaitersMask - 1023;

struct alignas(64) LockSlot {
  std::atomic<uint64_t> waiting;  // S << kWaitersBits | n
  std::atomic<uint64_t> mark;
  std::atomic<int64_t> settled_ns;            // last settled while a thread waited, or when a waiter got the lock
  std::atomic<uint32_t> visits;               // by holders since the last wait; with kSumsDue
  std::atomic<Offset> record;                 // LockRecord
  std::atomic<Offset> waiters[kSlotWaiters];  // known Rows of threads that wait now
  // Conditions: the signalled waiters, in the form of `waiting`. Other locks: the time at which the current waiting began,
  // in the place of S (see WaitedForNs).
  std::atomic<uint64_t> signalled;
  std::atomic<const void*> mutex;  // conditions: the mutex that waiters release
};
static_assert(sizeof(LockSlot) == 64);

// A call site where a thread waited lately, and the stack captured there. `call_site` is a hash of the thread, the kind
// of wait, the lock, the caller and the stack height; it is written last. If two stacks share a call site, waits are
// attributed to the one captured last.
struct KnownWait {
  std::atomic<uint64_t> call_site;  // 0: none yet
  std::atomic<Offset> stack, row, pair;
  std::atomic<uint32_t> outlasted;  // 1: the last wait there exceeded kFirstPartNs. A hint
};
static_assert(sizeof(KnownWait) == 24);
inline constexpr uint64_t kNoCallSite = 1;  // being replaced
inline constexpr int kKnownWaits = 4;

// A waiting thread, in its own cache lines, because threads that wait for one lock often have consecutive ids. It has
// the thread's innermost wait, as CurrentWait, to recognize dead threads, and the thread's known call sites.
struct alignas(64) WaitingThread {
  std::atomic<int> thread_id;  // 0: it does not wait. Written last when a wait begins, first when it ends
  std::atomic<uint32_t> kind;  // WaitKind
  std::atomic<LockSlot*> slot;
  std::atomic<int64_t> start_ns;
  KnownWait known[kKnownWaits];
  // Set when the thread gets a read lock that a writer waits for: a hash of the lock, and SlotReaders::alone_ns at that
  // time.
  std::atomic<uint64_t> arrival;
};
static_assert(sizeof(WaitingThread) == 128);
inline constexpr uint32_t kWaitingThreads = 1024;

// Two tables of slots: locks, which unlocks search; and things that are signalled or woken (conditions, futexes).
// Threads that wait for work all day are in the second one and cost unlocks nothing.
enum SlotTable : int { kHeldTable = 0, kWokenTable = 1 };
inline constexpr int kSlotTables = 2;
inline SlotTable TableOf(WaitKind kind) {
  return kind == WaitKind::kCondition || kind == WaitKind::kFutex ? kWokenTable : kHeldTable;
}

// Readers of a reader-writer lock that come and go while a writer waits. They hold the lock together, and the lock does
// not name them. The wait is attributed to the reader that lets the writer in: the last one to unlock.
//
//     readers  A ├──────────────────────────────────┤ 200 ms
//              B      ├─┤20 us    ├─┤                    B unlocks, and A stays: nothing is attributed
//     writer     ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤    all of it is attributed to A
//     alone_ns     ├──┤ ├────────┤ ├───────────────┤     how long A was the only holder
//
// The lock's word counts the readers. An unlock raises `leaving`, reads the word, and lowers `leaving` after the real
// unlock:
//     readers > leaving     another reader certainly stays
//     readers == 1          this one is the last
//     else                  several unlock at once, and any of them may be the last. This one leaves its stack in `row` and
//                           its time in `last_ns`; the waiter that gets the lock attributes the wait to the latest of them
// The reader that is the last to raise `leaving` never sees the first case. `leaving` belongs to the slot and not to
// its lock: a thread killed in its unlock leaves it too high, which makes the third case more frequent and nothing
// wrong.
struct alignas(64) SlotReaders {
  std::atomic<uint32_t> leaving;
  std::atomic<Offset> row;               // of the mutex profile; 0: none
  std::atomic<int64_t> last_ns;          // 0: no such unlock since the lock changed hands
  std::atomic<int64_t> alone_since_ns;   // 0: several readers, or none
  std::atomic<uint64_t> alone_ns;        // how long there was one reader while a writer waited. Only grows
  std::atomic<uint64_t> first_alone_ns;  // alone_ns when the first writer came
};
static_assert(sizeof(SlotReaders) == 64);

struct LockSlots {
  // A key's lowest bit: the slot is being freed.
  static constexpr uint64_t kBusy = 1;
  alignas(64) std::atomic<uint64_t> keys[kSlotTables][kLockSets][kKeysInSet];
  LockSlot slots[kSlotTables][kLockSets][kKeysInSet];
  SlotReaders readers[kLockSets][kKeysInSet];  // of the slots of kHeldTable
  // Indexed by the thread's id modulo the size. Two threads that share an entry both count as alive, and remember
  // little.
  WaitingThread threads[kWaitingThreads];
};

// 1 until the shim is ready, so that everything takes the slow path; always with a libc other than glibc. Hot paths read it as a plain word, together with
// the lock's own word, which is 0 when the lock is free: one comparison for both.
extern HOLDFAST_HIDDEN uint32_t locks_not_ready;
HOLDFAST_HOT inline bool TakenOrTooEarly(const int& word) {
  return UNLIKELY((static_cast<uint32_t>(word) | locks_not_ready) != 0);
}

// Slots in use in a table: the first read of every unlock, and the only one if no thread waits for any lock. Not 0
// before the shim is ready. Atomic operations write it; a plain read takes one instruction.
inline constexpr size_t kNotReady = size_t{1} << 63;
struct alignas(64) LockWatch {
  size_t taken;
};
extern HOLDFAST_HIDDEN LockWatch lock_watch[kSlotTables];
// Waiters during the capture of their stack: their lock's word does not show yet that they wait. Not 0 before the shim
// is ready.
extern HOLDFAST_HIDDEN uint32_t lock_preparing;
// Slots in use in each set.
extern HOLDFAST_HIDDEN std::atomic<uint8_t> lock_set_used[kSlotTables][kLockSets];
extern HOLDFAST_HIDDEN std::atomic<LockSlots*> lock_slots;

inline uint32_t LockSetOf(const void* lock) {
  // Locks are aligned to 4 bytes; those of an array should spread.
  return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(lock) >> 2) * 0x9e3779b1u >> 16) % kLockSets;
}

// Whether no thread waits for any lock. A thread that has just begun to wait is seen late; its first moments count for
// the next holder or as hand-off delay.
template <SlotTable kTable = kHeldTable>
HOLDFAST_HOT inline bool NoLockWatched() {
  return LIKELY(lock_watch[kTable].taken == 0);
}
// Whether a thread may be waiting for this lock.
inline bool WatchedSlow(const void* lock, SlotTable table = kHeldTable) {
  return lock_set_used[table][LockSetOf(lock)].load(std::memory_order_relaxed) != 0 ||
         lock_watch[table].taken >= kNotReady;
}

// After this call a lock without a slot has no waiters.
void BeginWatchingLocks();
// Call after BeginWatchingLocks if the hot paths do not know the words of this libc's locks.
void AlwaysLookSlowly();
// For a child of fork, where no thread waits.
void ForgetLockSlots();

LockSlot* FindSlot(const void* lock, SlotTable table);
// Returns the address of the lock that has this slot.
uint64_t LockOfSlot(LockSlot* slot);
// Records that this thread waits, or (`slot` null) that it does not, for TakeOutTheDead.
void NoteWaiting(int thread_id, WaitKind kind, LockSlot* slot, int64_t start_ns);
// Returns the entry for `call_site`, in use or not; null: there is none.
KnownWait* KnownWaitAt(int thread_id, uint64_t call_site);
// Waiting for a lock without waiters that was attributed to nobody. Negative: waiting that was attributed but not
// waited.
struct Leftover {
  int64_t ns;
  SlotTable table;
  Offset record;  // of the lock, or 0
  bool of_condition;
};
// For a slot without waiters. The leftover is then taken.
Leftover LeftoverOf(LockSlot* slot);
// Finds or makes the lock's slot. Null: no free slot (the caller counts it). `left`: leftover of the slot's former
// lock.
LockSlot* ClaimSlot(const void* lock, SlotTable table, Leftover* left);
// Registers `count` waiters since `start_ns`. Returns false if the slot was freed meanwhile (claim another), or if too
// many wait.
enum class WaitsFor : bool { kLock, kCondition };
bool AddWaiters(LockSlot* slot, const void* lock, WaitsFor what, int64_t start_ns, uint64_t count = 1);
// How long until `end_ns` at least one thread has waited, without a break.
inline int64_t WaitedForNs(const LockSlot& slot, int64_t end_ns) {
  const uint64_t first = slot.signalled.load(std::memory_order_relaxed) >> kWaitersBits;
  return static_cast<int64_t>((static_cast<uint64_t>(end_ns) - first) & (~uint64_t{0} >> kWaitersBits));
}
void RemoveWaiter(LockSlot* slot, int64_t end_ns);
// Call after RemoveWaiter. A holder may have read the clock after the end of this wait, and been charged more than was
// waited. Returns by how much the last waiter's wait must grow; 0 for others, because the remaining waiters make up for
// it.
int64_t LengthenLastWait(LockSlot* slot);
// For a slot of kHeldTable.
SlotReaders& ReadersOf(LockSlot* slot);
// The waiter comes later than recorded: our own work delayed it. (Negative: earlier.)
void DelayWaiter(LockSlot* slot, int64_t by_ns);
// Returns the mean of the times that were added to a word in the form of LockSlot::waiting and not subtracted again.
int64_t MeanStart(uint64_t word, int64_t now_ns);
// Attributes the waiting since the mark: nanoseconds, ≥ 0. `now_ns`: 0 = read the clock if a thread waits, or has given
// up since; afterwards the time that was read, or 0.
int64_t Settle(LockSlot* slot, int64_t* now_ns);
// Returns `attributed_ns` from Settle to the slot, unless another thread settled since (for an unlock that failed).
void Unsettle(LockSlot* slot, int64_t attributed_ns);
inline uint64_t WaitersOf(const LockSlot& slot) { return slot.waiting.load(std::memory_order_relaxed) & kWaitersMask; }
// A bit of visits: the holder has waited for the lock, and adds that wait's sums at its unlock. The slot must exist
// until then, or the unlock would not look.
inline constexpr uint32_t kSumsDue = uint32_t{1} << 31;
// One in this many unlocks checks whether its slot is still needed: see MayUnlockFast in this_thread.h.
inline constexpr uint16_t kOneVisitIn = 64;
// For a holder that finds no waiters. Frees the slot after a number of such visits, and returns what is left. `visits`:
// how many this call represents.
Leftover VisitIdleSlot(LockSlot* slot, const void* lock, uint32_t visits);
// Frees the slots of one set, the `turn`th, that had no waiters for kIdleNs (kIdleHeldNs: while the last waiter's sums
// are due) and have nothing left to attribute. Otherwise locks that are hardly ever taken again would slow down every
// unlock of the program.
inline constexpr int64_t kIdleNs = 1'000'000'000, kIdleHeldNs = 60 * kIdleNs;
void FreeIdleSlots(uint32_t turn);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_LOCK_SLOTS_H_
