// Locks for which somebody waits now, or did a moment ago: to whom whose waiting is attributed.
//
//     sets[hash of the lock's address] → 8 keys (addresses), a cache line     LockSlot of each key, a cache line
//
// A slot keeps W, the integral of the number of waiters over time, in one word: with n waiters of which the i-th came at
// s_i, and with the waits that are over,
//
//     W(t) = n·t − S       S = Σ s_i − Σ lengths of the waits that are over      word = S << kWaitersBits | n
//
// so that a waiter comes by adding (s << kWaitersBits | 1) and goes at time e by subtracting (e << kWaitersBits | 1). `mark`
// is the W up to which it has been attributed already. Settling attributes W − mark and moves the mark:
//
//     waiters    1 ├────────────────────┤                  W    ╱ slope 2
//     waiters    2        ├──────────────────┤                ╱
//     holder  A ──────┤unlock      B ├────────┤unlock       ╱ slope 1
//                      └ A: W−mark  └ delay      └ B: W−mark
//
// Who settles: an unlock while somebody sleeps (attributed to its stack), and a waiter that has the lock (the hand-off
// delay since the last unlock). A thread that takes the lock between the two, while the woken one is on its way, settles only
// if that one has gone back to sleep when it unlocks: then the way there is part of what is attributed to it (some 50 µs at
// most). Else such holds, each shorter than that way, are part of that delay. It keeps clocks out of the many short holds of a contended lock.
//
// Sums telescope, so holders + hand-off delays = waiters, whatever the order of events. A reading that comes late moves the
// mark never backwards: nothing is attributed twice.
//
// Any thread, also in a signal handler. Lock-free but for claiming a slot (a waiter's slow path), which is bounded. Full:
// nothing is attributed to the lock's holders, and it is counted; so it is with those who come when kMostWaiters wait.
// Times are nanoseconds of CLOCK_MONOTONIC, modulo 2^(64 − kWaitersBits): 12 days of waiting in one hold, all waiters together
// (64 waiters: 4 hours). Of a longer one 13 days are missing.
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
// More than that are not counted: one too many would be carried into the times. Threads that come at the same moment, each
// between its look and its addition, may exceed it by as many as there are.
inline constexpr uint64_t kMostWaiters = kWaitersMask - 1023;

struct alignas(64) LockSlot {
  std::atomic<uint64_t> waiting;  // S << kWaitersBits | n
  std::atomic<uint64_t> mark;
  std::atomic<int64_t> settled_ns;  // when it was last settled while somebody waited, or a waiter got the lock
  std::atomic<uint32_t> visits;     // by holders since somebody last waited; with kSumsDue
  std::atomic<Offset> record;       // LockRecord
  std::atomic<Offset> waiters[kSlotWaiters];  // Rows of threads that wait now, as far as they are known
  // Conditions: the same form as `waiting`, of those that were signalled. Others: since when somebody waits, in the place of S.
  std::atomic<uint64_t> signalled;
  std::atomic<const void*> mutex;  // conditions: the mutex that is let go for the wait
};
static_assert(sizeof(LockSlot) == 64);

// A call site where a thread waited lately, and the stack that was captured there. `call_site` is a hash of the thread, the
// kind of wait, the lock, the caller and the height of the stack: written last.
// The same call site may be reached by two ways: waits are then given to the one that was captured last.
struct KnownWait {
  std::atomic<uint64_t> call_site;  // 0: none yet
  std::atomic<Offset> stack, row, pair;
  std::atomic<uint32_t> outlasted;  // 1: the last wait there was longer than kFirstPartNs. A hint: either is right
};
static_assert(sizeof(KnownWait) == 24);
inline constexpr uint64_t kNoCallSite = 1;  // none now
inline constexpr int kKnownWaits = 4;

// What is kept of a thread that waits, in cache lines of its own: threads that wait for one lock often have ids in a row. Its
// innermost wait, as CurrentWait, so that one that is gone can be told from one that still waits; and what it knows.
struct alignas(64) WaitingThread {
  std::atomic<int> thread_id;  // 0: it does not wait. Written last when a wait begins, first when it ends
  std::atomic<uint32_t> kind;  // WaitKind
  std::atomic<LockSlot*> slot;
  std::atomic<int64_t> start_ns;
  KnownWait known[kKnownWaits];
  // When the thread last got a lock to read for which a writer waited: a hash of the lock, and SlotReaders::alone_ns then.
  std::atomic<uint64_t> came;
};
static_assert(sizeof(WaitingThread) == 128);
inline constexpr uint32_t kWaitingThreads = 1024;

// Two tables: locks, which an unlock looks for; and what is signalled or woken (conditions, futexes). Threads that wait for
// work all day do so in the second, and cost the locks of the program nothing.
enum SlotTable : int { kHeldTable = 0, kWokenTable = 1 };
inline constexpr int kSlotTables = 2;
inline SlotTable TableOf(WaitKind kind) {
  return kind == WaitKind::kCondition || kind == WaitKind::kFutex ? kWokenTable : kHeldTable;
}

// Readers of a reader-writer lock that come and go while a writer waits. All hold the lock together, and the lock does not
// name them. The wait is attributed to the reader that lets the writer in: the last one to unlock.
//
//     readers  A ├──────────────────────────────────┤ 200 ms
//              B      ├─┤20 us    ├─┤                    B unlocks, and A stays: nothing is attributed
//     writer     ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤    all of it is attributed to A
//     alone_ns     ├──┤ ├────────┤ ├───────────────┤     how long A was the only holder
//
// The lock's word counts the readers. An unlock raises `leaving`, reads the word, and lowers `leaving` after the real unlock:
//     readers > leaving     another reader is sure to stay
//     readers == 1          this one is the last
//     else                  several unlock at once, and any of them may be the last. This one leaves its stack in `row` and
//                           its time in `last_ns`; the waiter that gets the lock attributes the wait to the latest of them
// The reader that is the last to raise `leaving` never sees the first case. `leaving` belongs to the slot and not to its lock:
// a thread that is killed in its unlock leaves it too high, which makes the third case more frequent and nothing wrong.
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
  // A key's lowest bit: it is being given up.
  static constexpr uint64_t kBusy = 1;
  alignas(64) std::atomic<uint64_t> keys[kSlotTables][kLockSets][kKeysInSet];
  LockSlot slots[kSlotTables][kLockSets][kKeysInSet];
  SlotReaders readers[kLockSets][kKeysInSet];  // of the slots of kHeldTable
  // By the thread's id, modulo their number. Two threads that share one are both taken for alive, and know little.
  WaitingThread threads[kWaitingThreads];
};

// 1 until the shim is ready, so that everything is led to the slow path. Read as a plain word, together with the word of
// the lock itself that is 0 while it is free: one comparison for both.
extern HOLDFAST_HIDDEN uint32_t locks_not_ready;
HOLDFAST_HOT inline bool TakenOrTooEarly(const int& word) {
  return UNLIKELY((static_cast<uint32_t>(word) | locks_not_ready) != 0);
}

// How many slots of a table are taken: the first look of every unlock, and the last if nobody waits for any lock. Not 0
// before the shim is ready. Written by atomic operations; read as a plain word, so that a look is one instruction.
inline constexpr size_t kNotReady = size_t{1} << 63;
struct alignas(64) LockWatch {
  size_t taken;
};
extern HOLDFAST_HIDDEN LockWatch lock_watch[kSlotTables];
// Waiters that are having their stack captured: the word of their lock does not show yet that they wait. Not 0 before the
// shim is ready.
extern HOLDFAST_HIDDEN uint32_t lock_preparing;
// The last: slots taken in each set.
extern HOLDFAST_HIDDEN std::atomic<uint8_t> lock_set_used[kSlotTables][kLockSets];
extern HOLDFAST_HIDDEN std::atomic<LockSlots*> lock_slots;

inline uint32_t LockSetOf(const void* lock) {
  // Locks lie at multiples of 4; those of an array should spread.
  return static_cast<uint32_t>((reinterpret_cast<uintptr_t>(lock) >> 2) * 0x9e3779b1u >> 16) % kLockSets;
}

// Whether nobody waits for any lock. A thread that began to wait just now is seen late, and its first moments go to the next
// holder or to the hand-off delay.
template <SlotTable kTable = kHeldTable>
HOLDFAST_HOT inline bool NoneWatched() {
  return LIKELY(lock_watch[kTable].taken == 0);
}
// Whether somebody may be waiting for this one.
inline bool WatchedSlow(const void* lock, SlotTable table = kHeldTable) {
  return lock_set_used[table][LockSetOf(lock)].load(std::memory_order_relaxed) != 0 ||
         lock_watch[table].taken >= kNotReady;
}

// From here on an unwatched lock is one that nobody waits for.
void BeginWatchingLocks();
// In a child of fork: nobody waits.
void ForgetLockSlots();

LockSlot* FindSlot(const void* lock, SlotTable table);
// The address of the lock that has this slot.
uint64_t LockOfSlot(LockSlot* slot);
// Notes that this thread waits, or (`slot` null) that it does not: for TakeOutTheDead.
void NoteWaiting(int thread_id, WaitKind kind, LockSlot* slot, int64_t start_ns);
// Where what is known of `call_site` is or would be; null: nowhere.
KnownWait* KnownWaitAt(int thread_id, uint64_t call_site);
// What was waited for a lock that nobody waits for any more, and was attributed to nobody; negative: what was attributed to
// somebody, and nobody has counted as waited.
struct Leftover {
  int64_t ns;
  SlotTable table;
  Offset record;  // of the lock, or 0
  bool of_condition;
};
// Of a slot that nobody waits in. From then on it is taken.
Leftover LeftoverOf(LockSlot* slot);
// Finds or makes it. Null: no free slot (the caller counts it). `left`: of the lock that had the slot before.
LockSlot* ClaimSlot(const void* lock, SlotTable table, Leftover* left);
// Registers so many waiters since `start_ns`; false when the slot was given up meanwhile: claim another. Also false when too
// many wait.
enum class WaitsFor : bool { kLock, kCondition };
bool AddWaiters(LockSlot* slot, const void* lock, WaitsFor what, int64_t start_ns, uint64_t count = 1);
// Of a lock for which somebody waits: how long until `end_ns` somebody has, without a break.
inline int64_t WaitedForNs(const LockSlot& slot, int64_t end_ns) {
  const uint64_t first = slot.signalled.load(std::memory_order_relaxed) >> kWaitersBits;
  return static_cast<int64_t>((static_cast<uint64_t>(end_ns) - first) & (~uint64_t{0} >> kWaitersBits));
}
void RemoveWaiter(LockSlot* slot, int64_t end_ns);
// After RemoveWaiter: a holder may have read the clock after the end of this wait, and been attributed more than was waited. Of
// the last waiter to leave the wait ends that much later; of others 0, as those who still wait make up for it.
int64_t LengthenLastWait(LockSlot* slot);
// Of a slot of kHeldTable.
SlotReaders& ReadersOf(LockSlot* slot);
// The waiter came later than it said: our own work kept it. (Negative: earlier.)
void DelayWaiter(LockSlot* slot, int64_t by_ns);
// The mean of the times that were added to a word in the form of LockSlot::waiting and not taken away again.
int64_t MeanStart(uint64_t word, int64_t now_ns);
// Attributes what was waited since the mark: nanoseconds, ≥ 0. `now_ns`: 0 = read the clock if anybody waits, or gave up since;
// afterwards the time that was read, or 0.
int64_t Settle(LockSlot* slot, int64_t* now_ns);
// Gives back `attributed_ns` that Settle took, if nobody settled since (an unlock that failed).
void Unsettle(LockSlot* slot, int64_t attributed_ns);
inline uint64_t WaitersOf(const LockSlot& slot) { return slot.waiting.load(std::memory_order_relaxed) & kWaitersMask; }
// Of visits: who holds the lock had waited for it, and adds that wait's sums when it lets go. Its slot has to be there then,
// else the unlock would not look.
inline constexpr uint32_t kSumsDue = uint32_t{1} << 31;
// Of so many unlocks, one looks whether its slot is still needed: see Calm in this_thread.h.
inline constexpr uint16_t kOneVisitIn = 64;
// By a holder that found nobody waiting: after some such visits the slot is given up. Returns what is left then. `visits`: how
// many this one stands for.
Leftover VisitIdleSlot(LockSlot* slot, const void* lock, uint32_t visits);
// Gives up the slots of one set of locks, the `turn`th, for which nobody has waited for kIdleNs (kIdleHeldNs: while the last
// waiter's sums are due) and nothing is left to be attributed: of locks that are hardly ever taken again, on whose account every
// unlock of the program would go the longer way.
inline constexpr int64_t kIdleNs = 1'000'000'000, kIdleHeldNs = 60 * kIdleNs;
void TendSlots(uint32_t turn);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_LOCK_SLOTS_H_
