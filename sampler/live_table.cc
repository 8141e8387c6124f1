#include "sampler/live_table.h"

#include "sampler/syscalls.h"

namespace holdfast {
namespace {

// In a key's lowest bits, which an address leaves free: the slot is being filled, or held between Take and Drop/PutBack.
constexpr uint64_t kBusy = 1;
// A level's offset while it is being made: inside the header, so never a record.
constexpr Offset kInTheMaking = 1;

struct Level {
  std::atomic<uint64_t>* keys;
  LiveSample* samples;
  uint32_t slots;
};

Level LevelAt(Table* table, int level, Offset offset) {
  const uint32_t slots = kLiveSlots0 << level;
  auto* keys = table->At<std::atomic<uint64_t>>(offset);
  return {keys, reinterpret_cast<LiveSample*>(keys + slots), slots};
}

uint64_t HashOf(uintptr_t address) {
  uint64_t x = address >> 4;
  x *= 0x9e3779b97f4a7c15;
  return x ^ (x >> 32);
}

// Windows begin at multiples of 8 slots, a cache line of keys.
uint32_t WindowOf(const Level& level, uint64_t hash) { return static_cast<uint32_t>(hash) & (level.slots - 1) & ~7u; }

bool InsertInto(const Level& level, uint64_t hash, uintptr_t address, const LiveSample& sample) {
  const uint32_t first = WindowOf(level, hash);
  for (uint32_t i = 0; i < kLiveWindow; ++i) {
    const uint32_t slot = (first + i) & (level.slots - 1);
    uint64_t empty = 0;
    if (level.keys[slot].load(std::memory_order_relaxed) != 0 ||
        // Acquire: the last owner has read its sample before it gave the slot away (DropLive releases).
        !level.keys[slot].compare_exchange_strong(empty, kBusy, std::memory_order_acquire)) {
      continue;
    }
    level.samples[slot] = sample;
    level.keys[slot].store(address, std::memory_order_release);
    return true;
  }
  return false;
}

// The level's offset, made now if need be; 0 = no room.
Offset GetLevel(Table* table, int level) {
  auto& offset = table->header()->live_levels[level];
  Offset found = offset.load(std::memory_order_acquire);
  if (found > kInTheMaking) return found;
  const uint32_t bytes = (kLiveSlots0 << level) * (sizeof(uint64_t) + sizeof(LiveSample));
  // The slow part first, which several threads may do at once; then one of them takes the memory.
  if (!table->Back(bytes)) return 0;
  found = 0;
  if (offset.compare_exchange_strong(found, kInTheMaking, std::memory_order_acquire)) {
    void* memory = table->Allocate(bytes);
    offset.store(memory != nullptr ? table->OffsetOf(memory) : 0, std::memory_order_release);
    return offset.load(std::memory_order_relaxed);
  }
  // Another thread is a few instructions from done, unless it was preempted there: a bounded wait, about 10 ms.
  for (int i = 0; i < 10'000 && found == kInTheMaking; ++i) {
    if (i > 100 && !no_system_calls.load(std::memory_order_relaxed)) RawSyscall(SYS_sched_yield);
    found = offset.load(std::memory_order_acquire);
  }
  return found > kInTheMaking ? found : 0;
}

}  // namespace

bool InsertLive(Table* table, uintptr_t address, const LiveSample& sample) {
  const uint64_t hash = HashOf(address);
  for (int level = 0; level < kLiveLevels; ++level) {
    const Offset offset = GetLevel(table, level);
    if (offset == 0) return false;
    if (InsertInto(LevelAt(table, level, offset), hash, address, sample)) return true;
  }
  return false;
}

TakenLive TakeLive(Table* table, uintptr_t address) {
  const uint64_t hash = HashOf(address);
  for (int level = 0; level < kLiveLevels; ++level) {
    const Offset offset = table->header()->live_levels[level].load(std::memory_order_acquire);
    if (offset <= kInTheMaking) break;
    const Level slots = LevelAt(table, level, offset);
    const uint32_t first = WindowOf(slots, hash);
    for (uint32_t i = 0; i < kLiveWindow; ++i) {
      const uint32_t slot = (first + i) & (slots.slots - 1);
      if (slots.keys[slot].load(std::memory_order_acquire) != address) continue;
      slots.keys[slot].store(address | kBusy, std::memory_order_relaxed);  // only this thread knows the block
      return {slots.samples[slot], &slots.keys[slot]};
    }
  }
  return {};
}

// Release: our reads of the sample come before the slot's next owner writes it.
void DropLive(const TakenLive& taken) { taken.key->store(0, std::memory_order_release); }

void PutBackLive(const TakenLive& taken, uintptr_t address) { taken.key->store(address, std::memory_order_release); }

}  // namespace holdfast
