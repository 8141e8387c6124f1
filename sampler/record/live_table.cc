#include "sampler/record/live_table.h"

#include <algorithm>

#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

// Lowest bit of a key, which addresses leave free: the slot is being filled, or held between Take and Drop/PutBack.
constexpr uint64_t kBusy = 1;
// A segment's offset while it is being made: inside the header, so never a record.
constexpr Offset kInTheMaking = 1;

struct LiveSegment {
  std::atomic<uint64_t>* keys;
  LiveSample* samples;
  uint32_t slots;
};

constexpr int kFirstOfMany = 3;  // levels below have one segment each
constexpr uint32_t SlotsInSegment(int level) { return LiveSlotsIn(static_cast<uint32_t>(level)); }
static_assert(SlotsInSegment(kFirstOfMany - 1) == SlotsInSegment(kFirstOfMany));

uint64_t HashOf(uintptr_t address) {
  uint64_t x = address >> 4;
  x *= 0x9e3779b97f4a7c15;
  return x ^ (x >> 32);
}

// Returns the place in the header of the segment for `hash` in `level`.
std::atomic<Offset>& SegmentOf(SharedTable* table, int level, uint64_t hash) {
  if (level < kFirstOfMany) return table->header()->live_segments[level];
  const uint32_t segments = 1u << (level - kFirstOfMany + 1);
  return table->header()->live_segments[kFirstOfMany + segments - 2 + ((hash >> 40) & (segments - 1))];
}

LiveSegment At(SharedTable* table, int level, Offset offset) {
  const uint32_t slots = SlotsInSegment(level);
  auto* keys = table->At<std::atomic<uint64_t>>(offset);
  return {keys, reinterpret_cast<LiveSample*>(keys + slots), slots};
}

// Windows begin at multiples of 8 slots, a cache line of keys.
uint32_t WindowOf(const LiveSegment& segment, uint64_t hash) {
  return static_cast<uint32_t>(hash) & (segment.slots - 1) & ~7u;
}

bool InsertInto(const LiveSegment& segment, uint64_t hash, uintptr_t address, const LiveSample& sample) {
  const uint32_t first = WindowOf(segment, hash);
  for (uint32_t i = 0; i < kLiveWindow; ++i) {
    const uint32_t slot = (first + i) & (segment.slots - 1);
    uint64_t empty = 0;
    if (segment.keys[slot].load(std::memory_order_relaxed) != 0 ||
        // Acquire: the slot's last owner has read its sample before it freed the slot (DropLive releases).
        !segment.keys[slot].compare_exchange_strong(empty, kBusy, std::memory_order_acquire)) {
      continue;
    }
    segment.samples[slot] = sample;
    segment.keys[slot].store(address, std::memory_order_release);
    return true;
  }
  return false;
}

// Returns the segment's offset, made now if needed; 0 = no room.
Offset GetSegment(SharedTable* table, int level, std::atomic<Offset>& offset) {
  Offset found = offset.load(std::memory_order_acquire);
  if (found > kInTheMaking) return found;
  const auto bytes = static_cast<uint32_t>(SlotsInSegment(level) * (sizeof(uint64_t) + sizeof(LiveSample)));
  // The slow part first, which several threads may do at once; then one of them takes the memory.
  if (!table->Back(bytes)) return 0;
  found = 0;
  if (offset.compare_exchange_strong(found, kInTheMaking, std::memory_order_acquire)) {
    void* memory = table->Allocate(bytes);
    // First of all: as soon as the segment exists, blocks use it, and look-ups search the levels that have begun.
    auto& levels = table->header()->live_levels;
    uint32_t begun = levels.load(std::memory_order_relaxed);
    while (begun <= static_cast<uint32_t>(level) &&
           !levels.compare_exchange_weak(begun, static_cast<uint32_t>(level) + 1, std::memory_order_relaxed)) {
    }
    offset.store(memory != nullptr ? table->OffsetOf(memory) : 0, std::memory_order_release);
    return offset.load(std::memory_order_relaxed);
  }
  // Another thread is a few instructions from done, unless it was preempted: a bounded wait, about 10 ms.
  for (int i = 0; i < 10'000 && found == kInTheMaking; ++i) {
    if (i > 100 && !no_system_calls.load(std::memory_order_relaxed)) RawSyscall(SYS_sched_yield);
    found = offset.load(std::memory_order_acquire);
  }
  return found > kInTheMaking ? found : 0;
}

int Begun(SharedTable* table) {
  return static_cast<int>(
      std::min<uint32_t>(table->header()->live_levels.load(std::memory_order_relaxed), kLiveLevels));
}

// An empty slot has the key 0, and one that is being filled kBusy: neither is the address of a block.
constexpr bool MayBeKey(uintptr_t address) { return address != 0 && (address & kBusy) == 0; }

TakenLive TakeFrom(SharedTable* table, int level, uint64_t hash, uintptr_t address) {
  const Offset offset = SegmentOf(table, level, hash).load(std::memory_order_acquire);
  if (offset <= kInTheMaking) return {};
  const LiveSegment segment = At(table, level, offset);
  const uint32_t first = WindowOf(segment, hash);
  // One cache line at a time: most look-ups find nothing (the filter errs), and should be cheap.
  static_assert(kLiveWindow % 8 == 0);
  for (uint32_t line = 0; line < kLiveWindow; line += 8) {
    const uint32_t slot = (first + line) & (segment.slots - 1);
    std::atomic<uint64_t>* keys = &segment.keys[slot];
#pragma GCC unroll 8
    for (uint32_t i = 0; i < 8; ++i) {
      if (keys[i].load(std::memory_order_acquire) != address) continue;
      keys[i].store(address | kBusy, std::memory_order_relaxed);  // only this thread knows the block
      return {segment.samples[slot + i], &keys[i], {}};
    }
  }
  return {};
}

}  // namespace

int InsertLive(SharedTable* table, uintptr_t address, const LiveSample& sample) {
  const uint64_t hash = HashOf(address);
  // The newest level first: it is the largest, and the one with room.
  for (int level = Begun(table) - 1; level >= 0; --level) {
    const Offset offset = SegmentOf(table, level, hash).load(std::memory_order_acquire);
    if (offset > kInTheMaking && InsertInto(At(table, level, offset), hash, address, sample)) return level;
  }
  for (int level = 0; level < kLiveLevels; ++level) {
    const Offset offset = GetSegment(table, level, SegmentOf(table, level, hash));
    if (offset == 0) return -1;
    if (InsertInto(At(table, level, offset), hash, address, sample)) return level;
  }
  return -1;
}

TakenLive TakeLive(SharedTable* table, uintptr_t address, int level) {
  if (UNLIKELY(!MayBeKey(address))) return {};
  const uint64_t hash = HashOf(address);
  if (level >= 0) return TakeFrom(table, level, hash, address);
  for (level = Begun(table) - 1; level >= 0; --level) {
    const TakenLive taken = TakeFrom(table, level, hash, address);
    if (taken.key != nullptr) return taken;
  }
  return {};
}

TakenLive TakeLiveOf(SharedTable* table, uintptr_t address, Offset row) {
  if (UNLIKELY(!MayBeKey(address))) return {};
  const uint64_t hash = HashOf(address);
  for (int level = Begun(table) - 1; level >= 0; --level) {
    const Offset offset = SegmentOf(table, level, hash).load(std::memory_order_acquire);
    if (offset <= kInTheMaking) continue;
    const LiveSegment segment = At(table, level, offset);
    const uint32_t first = WindowOf(segment, hash);
    for (uint32_t i = 0; i < kLiveWindow; ++i) {
      const uint32_t slot = (first + i) & (segment.slots - 1);
      uint64_t key = address;
      if (segment.keys[slot].load(std::memory_order_relaxed) != address ||
          // Two threads may look for one address here: only one gets the slot.
          !segment.keys[slot].compare_exchange_strong(key, address | kBusy, std::memory_order_acquire)) {
        continue;
      }
      const LiveSample& sample = segment.samples[slot];
      if (sample.row == row && sample.beside_shadow != 0) return {sample, &segment.keys[slot], {}};
      segment.keys[slot].store(address, std::memory_order_release);
    }
  }
  return {};
}

void VisitLive(SharedTable* table, void (*visit)(SharedTable* table, uintptr_t address)) {
  for (int level = Begun(table) - 1; level >= 0; --level) {
    const uint32_t segments = level < kFirstOfMany ? 1 : 1u << (level - kFirstOfMany + 1);
    const uint32_t first = level < kFirstOfMany ? static_cast<uint32_t>(level) : kFirstOfMany + segments - 2;
    for (uint32_t i = 0; i < segments; ++i) {
      const Offset offset = table->header()->live_segments[first + i].load(std::memory_order_acquire);
      if (offset <= kInTheMaking) continue;
      const LiveSegment segment = At(table, level, offset);
      for (uint32_t slot = 0; slot < segment.slots; ++slot) {
        const uintptr_t address = segment.keys[slot].load(std::memory_order_acquire);
        if (MayBeKey(address)) visit(table, address);
      }
    }
  }
}

// Release: our reads of the sample come before the slot's next owner writes it.
void DropLive(const TakenLive& taken) { taken.key->store(0, std::memory_order_release); }

void PutBackLive(const TakenLive& taken, uintptr_t address) { taken.key->store(address, std::memory_order_release); }

}  // namespace holdfast
