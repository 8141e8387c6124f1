// Live small blocks that were sampled at interval 1: address → row and size, a word for each (records.h draws it).
//
// When every block is recorded, the live table's windows are long and its levels many: 200 to 900 instructions a free.
// Here the address leads to the only word that can have it: about 20. The map takes a quarter of the address space of
// small blocks, because waiting for its words is the main cost (docs/performance.md), and at most half of the table's
// room. Blocks beyond that are ordinary live samples.
//
// Any thread, also in a signal handler; lock-free. The thread that allocates a block writes its words before the
// program knows the address, and the thread that frees it clears the first word before the real free: so no two threads
// ever write a word at once.
#ifndef HOLDFAST_SAMPLER_TABLE_SHADOW_MAP_H_
#define HOLDFAST_SAMPLER_TABLE_SHADOW_MAP_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/shadow_words.h"
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

inline bool MayBeShadowed(uintptr_t address, uint64_t bytes) {
  return bytes <= kLargestShadowed && address % kShadowGrain == 0;
}

// A block that was removed.
struct Shadowed {
  Offset row = 0;  // 0: it was not there
  uint32_t bytes = 0;
};

// Whether the words of a block that has just been allocated are free. If not, an earlier block's free was not seen.
HOLDFAST_HOT inline bool IsFreeShadow(const std::atomic<uint32_t>* word, uint64_t bytes) {
  if (UNLIKELY(IsShadowedRow(word[0].load(std::memory_order_relaxed)))) return false;
  return UNLIKELY(bytes <= kShadowGrain) || LIKELY(!IsShadowedRow(word[1].load(std::memory_order_relaxed)));
}
// Write the size first, then the row: a reader that finds the row (release) finds the row's record and the size.
HOLDFAST_HOT inline void PutShadowedSize(std::atomic<uint32_t>* word, uint64_t bytes) {
  if (LIKELY(bytes > kShadowGrain)) word[1].store(ShadowedSize(bytes), std::memory_order_relaxed);
}
HOLDFAST_HOT inline void PutShadowedRow(std::atomic<uint32_t>* word, Offset row) {
  word->store(row, std::memory_order_release);
}
inline void PutShadow(std::atomic<uint32_t>* word, Offset row, uint64_t bytes) {
  PutShadowedSize(word, bytes);
  PutShadowedRow(word, row);
}

// Returns the word of `address`, or null if there is none yet. For a null address: the table's first word, which looks
// like a row.
HOLDFAST_HOT inline std::atomic<uint32_t>* ShadowWord(SharedTable* table, ShadowDirectory* directory,
                                                      uintptr_t address) {
  const uint64_t page = address >> kShadowShift;
  // Acquire: makes the new chunk's zeros visible.
  const uint64_t entry = directory->chunks[page % kShadowChunks].load(std::memory_order_acquire);
  if (UNLIKELY(entry >> 32 != page)) return nullptr;  // also if it is 0: no block is in the first pages
  auto* word = &table->At<ShadowChunk>(static_cast<Offset>(entry))->slots[address / kShadowGrain % kShadowSlots];
  if (word == nullptr) __builtin_unreachable();  // saves callers a second null test
  return word;
}
// The same, made now if possible.
std::atomic<uint32_t>* MakeShadowWord(SharedTable* table, ShadowDirectory* directory, uintptr_t address);

// Calls `visit` with the address of each block in the map.
void VisitShadow(SharedTable* table, void (*visit)(SharedTable* table, uintptr_t address));

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_SHADOW_MAP_H_
