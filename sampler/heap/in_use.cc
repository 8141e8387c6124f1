#include "sampler/heap/in_use.h"

#include <algorithm>

#include "sampler/contract/clock.h"

namespace holdfast {
namespace {

// A new height reads the clock if it exceeds the last timed one by one part in kTimedParts. Otherwise each allocation of a growing heap
// would read it.
constexpr uint64_t kTimedParts = 256;

// Whether every allocation is recorded, or was once.
bool IsExact(const HeapInUse& in_use) { return in_use.shadow.load(std::memory_order_relaxed) != 0; }

// The lines that readers look at include this one from now on. Returns how many they are.
uint32_t UseLine(HeapInUse* in_use, uint32_t owner) {
  uint32_t lines = in_use->threads.load(std::memory_order_relaxed);
  while (lines <= owner && !in_use->threads.compare_exchange_weak(lines, owner + 1, std::memory_order_relaxed)) {
  }
  return std::max(lines, owner + 1);
}

}  // namespace

HOLDFAST_WARM void NoteHighestSlow(HeapInUse* in_use, uint64_t now) {
  uint64_t highest = in_use->highest.load(std::memory_order_relaxed);
  while (now > highest) {
    if (!in_use->highest.compare_exchange_weak(highest, now, std::memory_order_relaxed)) continue;
    if (now - in_use->highest_timed.load(std::memory_order_relaxed) < now / kTimedParts) return;
    // If two threads do this at once, the time is one's or the other's, nanoseconds apart.
    in_use->highest_timed.store(now, std::memory_order_relaxed);
    in_use->highest_ns.store(MonotonicNs(), std::memory_order_relaxed);
    return;
  }
}

HOLDFAST_WARM void SeeHeight(SharedTable* table, uint32_t owner) {
  HeapInUse* const in_use = &table->header()->in_use;
  ThreadInUse* const all = table->header()->in_use_of;
  const uint32_t lines = UseLine(in_use, owner);
  uint64_t others = in_use->now.load(std::memory_order_relaxed), limits = others, own = 0;
  uint64_t threads = 1;
  for (uint32_t i = 0; i < lines; ++i) {
    // Acquire: its room is read afterwards.
    const uint64_t limit = all[i].limit.load(std::memory_order_acquire);
    const uint64_t room = all[i].room.load(std::memory_order_relaxed);
    if (i == owner) {
      own = limit - room;
    } else if ((limit | room) != 0) {
      others += limit - room;
      limits += limit;
      ++threads;
    }
  }
  // The sum may be negative, because lines change meanwhile.
  const uint64_t now = static_cast<int64_t>(others + own) > 0 ? others + own : 0;
  if (now > in_use->highest.load(std::memory_order_relaxed)) NoteHighestSlow(in_use, now);
  const uint64_t highest = in_use->highest.load(std::memory_order_relaxed);
  // Threads that check at the same moment do not see each other's new limits: each takes its share of the rest.
  const int64_t left = static_cast<int64_t>(highest - limits - own) / static_cast<int64_t>(threads);
  const auto least = static_cast<int64_t>(threads == 1 ? 0 : highest / (kHeightParts * threads));
  const uint64_t limit = own + static_cast<uint64_t>(std::max(left, least));
  const uint64_t more = limit - all[owner].limit.load(std::memory_order_relaxed);
  all[owner].room.fetch_add(more, std::memory_order_relaxed);
  all[owner].limit.fetch_add(more, std::memory_order_release);
}

void AddInUse(SharedTable* table, const ThreadState& thread, uint64_t amount) {
  HeapInUse* const in_use = &table->header()->in_use;
  if (LIKELY(!IsExact(*in_use))) {
    const uint64_t now = in_use->now.fetch_add(amount, std::memory_order_relaxed) + amount;
    if (UNLIKELY(now > in_use->highest.load(std::memory_order_relaxed))) NoteHighestSlow(in_use, now);
  } else if (thread.owner != 0) {
    AddOwnInUse(table, thread, amount);
  } else if (table->header()->in_use_of[0].room.fetch_sub(amount, std::memory_order_relaxed) < amount) {
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
}

}  // namespace holdfast
