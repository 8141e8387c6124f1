#include "sampler/table/shadow_map.h"

#include <initializer_list>

#include "sampler/contract/syscalls.h"
#include "sampler/table/table_room.h"

namespace holdfast {

constinit ShadowDirectory no_shadow{};
constinit std::atomic<ShadowDirectory*> shadow_directory{&no_shadow};

namespace {

// Below that a chunk or two would leave no room for stacks; the live table needs a tenth.
constexpr uint64_t kMinTable = 8 << 20;

// Bytes of chunks and ShadowTinies that were made; if two threads make the same one at once, one stays unused.
constinit std::atomic<uint64_t> bytes_made{0};

// Room for tables was short once: this process takes only what it needs.
constinit std::atomic<bool> refused{false};

bool MayGrow() {
  if (refused.load(std::memory_order_relaxed)) return false;
  if (!no_system_calls.load(std::memory_order_relaxed) && RoomForTables(sizeof(ShadowChunk)) == Room::kPlenty)
    return true;
  refused.store(true, std::memory_order_relaxed);
  return false;
}

// Null: no room.
template <typename T>
T* Make(SharedTable* table) {
  const uint64_t before = bytes_made.load(std::memory_order_relaxed), after = before + sizeof(T);
  // A look takes a system call or more: one for each chunk, and for as many bytes of tiny blocks' words.
  const bool looks = before / sizeof(ShadowChunk) != after / sizeof(ShadowChunk);
  if (after > table->header()->cap_bytes / 2 || !(looks ? MayGrow() : !refused.load(std::memory_order_relaxed)))
    return nullptr;
  T* made = table->New<T>();
  if (made != nullptr) bytes_made.fetch_add(sizeof(T), std::memory_order_relaxed);
  return made;
}

}  // namespace

bool BeginShadow(SharedTable* table) {
  if (shadow_directory.load(std::memory_order_relaxed) != &no_shadow) return true;
  const uint64_t cap = table->header()->cap_bytes;
  if (cap < kMinTable || cap / kUnit > kShadowedRows || !MayGrow()) return false;
  auto* made = table->New<ShadowDirectory>();
  if (made == nullptr) return false;
  Offset none = 0;
  if (!table->header()->in_use.shadow.compare_exchange_strong(none, table->OffsetOf(made), std::memory_order_acq_rel))
    made = table->At<ShadowDirectory>(none);  // another thread was first
  else
    bytes_made.store(0, std::memory_order_relaxed);
  shadow_directory.store(made, std::memory_order_release);
  return true;
}

std::atomic<uint32_t>* MakeShadowWord(SharedTable* table, ShadowDirectory* directory, uintptr_t address) {
  if (directory == &no_shadow) return nullptr;
  const uint64_t page = address >> kShadowShift;
  std::atomic<uint64_t>& place = directory->chunks[page % kShadowChunks];
  if (place.load(std::memory_order_relaxed) != 0) return ShadowWord(table, directory, address);
  auto* chunk = Make<ShadowChunk>(table);
  if (chunk == nullptr) return nullptr;
  uint64_t none = 0;
  place.compare_exchange_strong(none, page << 32 | table->OffsetOf(chunk), std::memory_order_release,
                                std::memory_order_relaxed);
  return ShadowWord(table, directory, address);
}

std::atomic<uint32_t>* MakeTinyWord(SharedTable* table, ShadowDirectory* directory, uintptr_t address) {
  std::atomic<uint32_t>* const word = MakeShadowWord(table, directory, address);
  if (word == nullptr || address % kTinyGrain != 0) return nullptr;
  if (IsShadowedRow(word->load(std::memory_order_relaxed))) return nullptr;
  std::atomic<Offset>& place = ChunkOf(table, directory, address)->tinies[address / kTinyPage % kTinyPages];
  if (place.load(std::memory_order_acquire) == 0) {
    auto* made = Make<ShadowTinies>(table);
    if (made == nullptr) return nullptr;
    Offset none = 0;
    place.compare_exchange_strong(none, table->OffsetOf(made), std::memory_order_acq_rel);
  }
  // Other tiny blocks in these bytes write the same.
  const uint32_t value = place.load(std::memory_order_acquire) * 8 + kShadowHasTinies;
  word->store(value, std::memory_order_release);
  return TinyWord(table, value, address);
}

namespace {

// Calls `visit` with the address of each block in the 32 bytes from `start` on.
template <typename Visit>
void VisitWord(SharedTable* table, const ShadowChunk& chunk, uintptr_t start, Visit visit) {
  // Acquire: makes zeros of ShadowTinies visible.
  const uint32_t value = chunk.slots[start / kShadowGrain % kShadowSlots].load(std::memory_order_acquire);
  if (IsShadowedRow(value)) return visit(start + ShadowedAt(value));
  if (!HasTinies(value)) return;
  for (uintptr_t at = start; at < start + kShadowGrain; at += kTinyGrain) {
    if (IsShadowedRow(TinyWord(table, value, at)->load(std::memory_order_relaxed))) visit(at);
  }
}

}  // namespace

void VisitShadowAt(SharedTable* table, uintptr_t address, bool both, void* context,
                   void (*visit)(void* context, uintptr_t address)) {
  ShadowDirectory* const directory = shadow_directory.load(std::memory_order_acquire);
  const uintptr_t start = address / kShadowGrain * kShadowGrain;
  for (const uintptr_t at : {start, both ? start + kShadowGrain : 0}) {
    if (const ShadowChunk* chunk = ChunkOf(table, directory, at); at != 0 && chunk != nullptr)
      VisitWord(table, *chunk, at, [=](uintptr_t block) { visit(context, block); });
  }
}

void VisitShadow(SharedTable* table, void (*visit)(SharedTable* table, uintptr_t address)) {
  ShadowDirectory* const directory = shadow_directory.load(std::memory_order_acquire);
  for (const std::atomic<uint64_t>& place : directory->chunks) {
    const uint64_t entry = place.load(std::memory_order_acquire);
    if (entry == 0) continue;
    const auto* const chunk = table->At<ShadowChunk>(static_cast<Offset>(entry));
    const uintptr_t first = entry >> 32 << kShadowShift;
    for (uint32_t slot = 0; slot < kShadowSlots; ++slot)
      VisitWord(table, *chunk, first + uintptr_t{slot} * kShadowGrain, [=](uintptr_t block) { visit(table, block); });
  }
}

}  // namespace holdfast
