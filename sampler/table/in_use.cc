#include "sampler/table/in_use.h"

#include <algorithm>

#include "sampler/contract/clock.h"

namespace holdfast {
namespace {

// A new height reads the clock if it exceeds the last timed one by one part in kTimedParts. Otherwise each allocation of a growing heap
// would read it.
constexpr uint64_t kTimedParts = 256;
// How often what all threads have in use is added up, until two sums in a row are equal.
constexpr int kSums = 3;
// A limit that changes between two looks is read again, this often.
constexpr int kLooks = 4;
// Line 0 belongs to all threads that own no rows, line 1 to the first thread.
constexpr uint32_t kSecondLine = 2;

// Whether every allocation is recorded, or was once.
bool IsExact(const HeapInUse& in_use) { return in_use.shadow.load(std::memory_order_relaxed) != 0; }

// The lines that readers look at include this one from now on. Returns how many they are.
uint32_t UseLine(HeapInUse* in_use, uint32_t owner) {
  uint32_t lines = in_use->threads.load(std::memory_order_relaxed);
  while (lines <= owner && !in_use->threads.compare_exchange_weak(lines, owner + 1, std::memory_order_relaxed)) {
  }
  return std::max(lines, owner + 1);
}

bool IsUsed(const ThreadInUse& line) {
  return (line.limit.load(std::memory_order_relaxed) | line.room.load(std::memory_order_relaxed)) != 0;
}

// Whether no other thread is known.
bool IsAlone(const ThreadInUse* all, uint32_t lines) { return lines <= kSecondLine && !IsUsed(all[0]); }

uint64_t InUseOf(const ThreadInUse& line) {
  uint64_t limit = line.limit.load(std::memory_order_acquire);
  for (int look = 0;; ++look) {
    // Acquire: a limit that was lowered before this room is seen below.
    const uint64_t room = line.room.load(std::memory_order_acquire);
    const uint64_t again = line.limit.load(std::memory_order_acquire);
    if (limit == again || look == kLooks) return std::min<int64_t>(limit, again) - room;
    limit = again;
  }
}

int64_t InUseOfAll(const TableHeader& header, uint32_t lines) {
  uint64_t sum = header.in_use.now.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < lines; ++i) sum += InUseOf(header.in_use_of[i]);
  return static_cast<int64_t>(sum);
}

// Lines are read one after the other while other threads allocate and free, and this thread may be preempted between two of them. So a sum
// counts that was found twice in a row; else the lowest of some, less what they differ by.
int64_t LeastInUse(const TableHeader& header, uint32_t lines, int64_t sum) {
  int64_t least = sum, most = sum;
  for (int i = 1; i < kSums; ++i) {
    const int64_t again = InUseOfAll(header, lines);
    if (again == sum) return sum;
    sum = again;
    least = std::min(least, sum);
    most = std::max(most, sum);
  }
  return least - (most - least);
}

void RaiseMax(HeapInUse* in_use, uint64_t possible) {
  uint64_t most = in_use->most.load(std::memory_order_relaxed);
  while (static_cast<int64_t>(possible) > static_cast<int64_t>(most) &&
         !in_use->most.compare_exchange_weak(most, possible, std::memory_order_relaxed)) {
  }
}

uint64_t RoomShare(const HeapInUse& in_use, uint64_t lines) {
  return in_use.highest.load(std::memory_order_relaxed) / (kHeightParts * lines);
}

// The sum of all limits is as high already.
void Grant(ThreadInUse* line, uint64_t more) {
  line->room.fetch_add(more, std::memory_order_relaxed);
  line->limit.fetch_add(more, std::memory_order_release);
}

// The line of several threads may be used by another one meanwhile.
bool HasNoRoom(uint64_t room) { return static_cast<int64_t>(room) < 0; }

}  // namespace

HOLDFAST_WARM void NoteHighestSlow(HeapInUse* in_use, uint64_t now) {
  uint64_t highest = in_use->highest.load(std::memory_order_relaxed);
  while (now > highest) {
    if (!in_use->highest.compare_exchange_weak(highest, now, std::memory_order_relaxed)) continue;
    if (now - in_use->highest_timed.load(std::memory_order_relaxed) < now / kTimedParts) return;
    // If two threads arrive at once, either time may win; they differ by nanoseconds.
    in_use->highest_timed.store(now, std::memory_order_relaxed);
    in_use->highest_ns.store(MonotonicNs(), std::memory_order_relaxed);
    return;
  }
}

HOLDFAST_WARM void SeeHeight(SharedTable* table, uint32_t owner) {
  HeapInUse* const in_use = &table->header()->in_use;
  ThreadInUse* const all = table->header()->in_use_of;
  const uint32_t lines = UseLine(in_use, owner);
  const uint64_t before = in_use->now.load(std::memory_order_relaxed);
  const uint64_t room = all[owner].room.load(std::memory_order_relaxed);
  if (IsAlone(all, lines)) {
    const uint64_t limit = all[owner].limit.load(std::memory_order_relaxed);
    const auto own = static_cast<int64_t>(before + limit - room);
    uint64_t highest = in_use->highest.load(std::memory_order_relaxed);
    if (own > static_cast<int64_t>(highest)) {
      highest = static_cast<uint64_t>(own);
      NoteHighestSlow(in_use, highest);
    }
    const uint64_t more = highest - before - limit;
    RaiseMax(in_use, before + in_use->limits.fetch_add(more, std::memory_order_relaxed) + more);
    return Grant(&all[owner], more);
  }
  const uint64_t more = (HasNoRoom(room) ? uint64_t{0} - room : 0) + RoomShare(*in_use, lines);
  const uint64_t possible = before + in_use->limits.fetch_add(more, std::memory_order_relaxed) + more;
  if (static_cast<int64_t>(possible) > static_cast<int64_t>(in_use->highest.load(std::memory_order_relaxed))) {
    RaiseMax(in_use, possible);
    const int64_t sum = InUseOfAll(*table->header(), lines);
    const auto highest = static_cast<int64_t>(in_use->highest.load(std::memory_order_relaxed));
    if (sum > highest) {
      const int64_t now = LeastInUse(*table->header(), lines, sum);
      if (now > highest) NoteHighestSlow(in_use, static_cast<uint64_t>(now));
    }
  }
  Grant(&all[owner], more);
}

void GiveBackRoom(SharedTable* table, const ThreadState& thread, Keep keep) {
  HeapInUse* const in_use = &table->header()->in_use;
  if (LIKELY(!IsExact(*in_use))) return;
  ThreadInUse* const line = &table->header()->in_use_of[thread.owner];
  const uint32_t lines = in_use->threads.load(std::memory_order_relaxed);
  if (keep == Keep::kShare && IsAlone(table->header()->in_use_of, lines)) return;
  const uint64_t share = keep == Keep::kShare ? RoomShare(*in_use, std::max(1u, lines)) : 0;
  uint64_t room = line->room.load(std::memory_order_relaxed);
  // An allocation that a handler left by a jump has taken more than there was.
  if (UNLIKELY(HasNoRoom(room))) return SeeHeight(table, thread.owner);
  if (room <= 2 * share) return;
  const uint64_t given = room - share;
  // Store the limit first: a reader in between finds too little in use. Release: a reader that sees the room sees the limit.
  line->limit.fetch_sub(given, std::memory_order_relaxed);
  // A handler, or another thread of the same line, may use the room meanwhile.
  if (!line->room.compare_exchange_strong(room, share, std::memory_order_release, std::memory_order_relaxed)) {
    line->limit.fetch_add(given, std::memory_order_relaxed);
    return;
  }
  in_use->limits.fetch_sub(given, std::memory_order_relaxed);
}

void ExpectAnotherThread(SharedTable* table, const ThreadState& thread) {
  HeapInUse* const in_use = &table->header()->in_use;
  if (LIKELY(!IsExact(*in_use))) return;
  UseLine(in_use, kSecondLine);
  GiveBackRoom(table, thread);
}

void AddInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  HeapInUse* const in_use = &table->header()->in_use;
  if (LIKELY(!IsExact(*in_use))) {
    const uint64_t now = in_use->now.fetch_add(amount, std::memory_order_relaxed) + amount;
    if (UNLIKELY(now > in_use->highest.load(std::memory_order_relaxed))) NoteHighestSlow(in_use, now);
  } else if (thread.owner != 0) {
    AddOwnInUse(table, thread, amount);
  } else if (HasNoRoom(table->header()->in_use_of[0].room.fetch_sub(amount, std::memory_order_relaxed) - amount)) {
    SeeHeight(table, 0);
  }
}

void TakeInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  HeapInUse* const in_use = &table->header()->in_use;
  if (LIKELY(!IsExact(*in_use))) {
    in_use->now.fetch_sub(amount, std::memory_order_relaxed);
    return;
  }
  // A thread may free before it has allocated anything.
  UseLine(in_use, thread.owner);
  table->header()->in_use_of[thread.owner].room.fetch_add(amount, std::memory_order_relaxed);
  GiveBackRoom(table, thread);
}

}  // namespace holdfast
