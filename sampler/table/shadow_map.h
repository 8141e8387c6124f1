// Live small blocks that were sampled at interval 1: address → row and size, a word for each (records.h draws it).
//
// When every block is recorded, the live table's windows are long and its levels many: 200 to 900 instructions a free.
// Here the address leads to the only word that can have it: about 20. The map takes an eighth of the address space of
// small blocks, and half of the pages that another allocator than glibc's fills with tiny ones; at most half of the
// table's room. Blocks beyond that are ordinary live samples.
//
// Any thread, also in a signal handler; lock-free. The thread that allocates a block writes its words before the
// program knows the address, and the thread that frees it clears the first word before the real free: so no two threads
// ever write a word at once.
#ifndef HOLDFAST_SAMPLER_TABLE_SHADOW_MAP_H_
#define HOLDFAST_SAMPLER_TABLE_SHADOW_MAP_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/shadow_words.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// An empty directory, never written, while this process has no other: a handler may fork at any moment, and its child
// continue with the interrupted code.
extern HOLDFAST_HIDDEN ShadowDirectory no_shadow;
extern HOLDFAST_HIDDEN std::atomic<ShadowDirectory*> shadow_directory;

// Makes the directory. False: no room, a cap so small that the live table uses it better, or one so large that a row's
// Offset does not fit a word.
bool BeginShadow(SharedTable* table);
// For a child of fork, which has another table.
inline void ForgetShadow() { shadow_directory.store(&no_shadow, std::memory_order_relaxed); }

// Whether a block has its word in ShadowTinies.
inline bool IsTiny(uintptr_t address, uint64_t bytes) {
  return UNLIKELY(bytes <= kLargestTiny) &&
         (other_allocators.load(std::memory_order_relaxed) != 0 || address % kShadowAlignment != 0);
}

inline bool MayBeShadowed(uintptr_t address, uint64_t bytes) {
  return bytes <= kLargestShadowed && address % (bytes <= kLargestTiny ? kTinyGrain : kShadowAlignment) == 0;
}
// The row of a word.
HOLDFAST_HOT inline Row* RowOfShadow(SharedTable* table, uint32_t word) {
  static_assert(kUnit == 8);  // its Offset begins at bit 3
  return reinterpret_cast<Row*>(reinterpret_cast<char*>(table) + (word & ~kShadowKinds));
}

// A block that was removed.
struct Shadowed {
  Offset row = 0;  // 0: it was not there
  uint32_t bytes = 0;
};

// Write the size first, then the row: a reader that finds the row (release) finds the row's record and the size.
HOLDFAST_HOT inline void PutShadowedSize(std::atomic<uint32_t>* word, uint64_t bytes) {
  if (bytes > kLargestOwnClass) word[1].store(ShadowedSize(bytes), std::memory_order_relaxed);
}
HOLDFAST_HOT inline void PutShadowedRow(std::atomic<uint32_t>* word, Offset row, uintptr_t address) {
  word->store(ShadowOf(row, address), std::memory_order_release);
}
inline void PutShadow(std::atomic<uint32_t>* word, Offset row, uintptr_t address, uint64_t bytes) {
  PutShadowedSize(word, bytes);
  PutShadowedRow(word, row, address);
}

// Returns the chunk of `address`, or null if there is none yet. For a null address: the table's start.
HOLDFAST_HOT inline ShadowChunk* ChunkOf(SharedTable* table, ShadowDirectory* directory, uintptr_t address) {
  const uint64_t page = address >> kShadowShift;
  // Acquire: makes the new chunk's zeros visible.
  const uint64_t entry = directory->chunks[page % kShadowChunks].load(std::memory_order_acquire);
  if (UNLIKELY(entry >> 32 != page)) return nullptr;  // also if it is 0: no block is in the first pages
  auto* chunk = table->At<ShadowChunk>(static_cast<Offset>(entry));
  if (chunk == nullptr) __builtin_unreachable();  // saves callers a second null test
  return chunk;
}
// Returns the word of a block at `address` that is not tiny, or null. For a null address: the table's first word.
HOLDFAST_HOT inline std::atomic<uint32_t>* ShadowWord(SharedTable* table, ShadowDirectory* directory,
                                                      uintptr_t address) {
  ShadowChunk* const chunk = ChunkOf(table, directory, address);
  return LIKELY(chunk != nullptr) ? &chunk->slots[address / kShadowGrain % kShadowSlots] : nullptr;
}
// Returns the word of a tiny block. `word`: that of ShadowWord, which HasTinies.
HOLDFAST_HOT inline std::atomic<uint32_t>* TinyWord(SharedTable* table, uint32_t word, uintptr_t address) {
  return &table->At<ShadowTinies>(ShadowedTinies(word))->slots[TinySlot(address)];
}
// Returns the word that says that a block lives at `address`, or null.
inline std::atomic<uint32_t>* WordOfBlock(SharedTable* table, ShadowDirectory* directory, uintptr_t address) {
  std::atomic<uint32_t>* word = ShadowWord(table, directory, address);
  if (UNLIKELY(word == nullptr)) return nullptr;
  const uint32_t value = word->load(std::memory_order_relaxed);
  if (LIKELY(IsShadowOf(value, address))) return word;
  if (!HasTinies(value)) return nullptr;
  word = TinyWord(table, value, address);
  return IsShadowedRow(word->load(std::memory_order_relaxed)) ? word : nullptr;
}
// Returns the word to put a new block's row in, of `word` from ShadowWord. Null: not free, or not made yet.
HOLDFAST_HOT inline std::atomic<uint32_t>* FreeShadow(SharedTable* table, std::atomic<uint32_t>* word,
                                                      uintptr_t address, uint64_t bytes) {
  const uint32_t value = word->load(std::memory_order_relaxed);
  if (UNLIKELY(IsTakenShadow(value))) {
    if (!HasTinies(value) || bytes > kLargestTiny) return nullptr;
    word = TinyWord(table, value, address);
    return LIKELY(word->load(std::memory_order_relaxed) == 0) ? word : nullptr;
  }
  if (bytes > kLargestOwnClass) return LIKELY(!IsTakenShadow(word[1].load(std::memory_order_relaxed))) ? word : nullptr;
  // Not IsTiny: the compiler would keep its remainder in memory.
  const bool is_tiny = UNLIKELY(bytes <= kLargestTiny) &&
                       (other_allocators.load(std::memory_order_relaxed) != 0 || (address & kTinyGrain) != 0);
  return LIKELY(!is_tiny) ? word : nullptr;
}

// The words of ShadowWord and TinyWord, made now if possible. Not of a tiny block beside a larger one.
std::atomic<uint32_t>* MakeShadowWord(SharedTable* table, ShadowDirectory* directory, uintptr_t address);
std::atomic<uint32_t>* MakeTinyWord(SharedTable* table, ShadowDirectory* directory, uintptr_t address);

// Calls `visit` with the address of each block in the bytes of the word of `address`, and of the next one if `both`.
void VisitShadowAt(SharedTable* table, uintptr_t address, bool both, void* context,
                   void (*visit)(void* context, uintptr_t address));
// Calls `visit` with the address of each block in the map.
void VisitShadow(SharedTable* table, void (*visit)(SharedTable* table, uintptr_t address));

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_SHADOW_MAP_H_
