#include "sampler/table/shadow_map.h"

#include "sampler/contract/syscalls.h"
#include "sampler/table/table_room.h"

namespace holdfast {

constinit ShadowDirectory no_shadow{};
constinit std::atomic<ShadowDirectory*> shadow_directory{&no_shadow};

namespace {

// Below that a chunk or two would leave no room for stacks; the live table needs a tenth.
constexpr uint64_t kMinTable = 8 << 20;

// Chunks that were made; if two threads make the same one at once, one stays unused.
constinit std::atomic<uint32_t> chunks_made{0};

// Room for tables was short once: this process takes only what it needs.
constinit std::atomic<bool> refused{false};

bool MayGrow() {
  if (refused.load(std::memory_order_relaxed)) return false;
  if (!no_system_calls.load(std::memory_order_relaxed) && RoomForTables(sizeof(ShadowChunk)) == Room::kPlenty)
    return true;
  refused.store(true, std::memory_order_relaxed);
  return false;
}

}  // namespace

bool BeginShadow(SharedTable* table) {
  if (shadow_directory.load(std::memory_order_relaxed) != &no_shadow) return true;
  const uint64_t cap = table->header()->cap_bytes;
  if (cap < kMinTable || cap / kUnit > kShadowSize || !MayGrow()) return false;
  auto* made = table->New<ShadowDirectory>();
  if (made == nullptr) return false;
  Offset none = 0;
  if (!table->header()->in_use.shadow.compare_exchange_strong(none, table->OffsetOf(made), std::memory_order_acq_rel))
    made = table->At<ShadowDirectory>(none);  // another thread was first
  else
    chunks_made.store(0, std::memory_order_relaxed);
  shadow_directory.store(made, std::memory_order_release);
  return true;
}

std::atomic<uint32_t>* MakeShadowWord(SharedTable* table, ShadowDirectory* directory, uintptr_t address) {
  if (directory == &no_shadow) return nullptr;
  const uint64_t page = address >> kShadowShift;
  std::atomic<uint64_t>& place = directory->chunks[page % kShadowChunks];
  if (place.load(std::memory_order_relaxed) != 0) return ShadowWord(table, directory, address);
  const uint64_t most = table->header()->cap_bytes / 2 / sizeof(ShadowChunk);
  if (chunks_made.load(std::memory_order_relaxed) >= most || !MayGrow()) return nullptr;
  auto* chunk = table->New<ShadowChunk>();
  if (chunk == nullptr) return nullptr;
  chunks_made.fetch_add(1, std::memory_order_relaxed);
  uint64_t none = 0;
  place.compare_exchange_strong(none, page << 32 | table->OffsetOf(chunk), std::memory_order_release,
                                std::memory_order_relaxed);
  return ShadowWord(table, directory, address);
}

void VisitShadow(SharedTable* table, void (*visit)(SharedTable* table, uintptr_t address)) {
  ShadowDirectory* const directory = shadow_directory.load(std::memory_order_acquire);
  for (const std::atomic<uint64_t>& place : directory->chunks) {
    const uint64_t entry = place.load(std::memory_order_acquire);
    if (entry == 0) continue;
    const auto* const chunk = table->At<ShadowChunk>(static_cast<Offset>(entry));
    const uintptr_t first = entry >> 32 << kShadowShift;
    for (uint32_t slot = 0; slot < kShadowSlots; ++slot) {
      if (IsShadowedRow(chunk->slots[slot].load(std::memory_order_relaxed)))
        visit(table, first + uintptr_t{slot} * kShadowGrain);
    }
  }
}

}  // namespace holdfast
