// Live small blocks that were sampled at interval 1: address → row and size, a word for each (records.h draws it).
//
// Where every block is recorded the live table's windows are long and its levels many: 200 to 900 instructions a free. Here the
// address leads to the one word that can hold it: some 20. It takes a quarter of the bytes of the address space that small blocks
// lie in, as its words are waited for (docs/performance.md); no more than half of the table's room is spent on it, and blocks
// beyond that are live samples like any others.
//
// Any thread, also in a signal handler; lock-free. A block's words are written by the thread that allocates it, before the
// program knows the address, and the first emptied by the one that frees it, before the real free: no two threads ever write one at
// once.
#ifndef HOLDFAST_SAMPLER_TABLES_SHADOW_MAP_H_
#define HOLDFAST_SAMPLER_TABLES_SHADOW_MAP_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/shadow_words.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// An empty one, never written, where this process has none: a handler may fork at any moment, and its child go on with
// what it was about.
extern HOLDFAST_HIDDEN ShadowDirectory no_shadow;
extern HOLDFAST_HIDDEN std::atomic<ShadowDirectory*> shadow_directory;

// Makes the directory. False: no room, so little that the live table makes more of it, or so much that a row's Offset fits no word.
bool BeginShadow(SharedTable* table);
// In a child of fork, which has another table.
inline void ForgetShadow() { shadow_directory.store(&no_shadow, std::memory_order_relaxed); }

inline bool MayBeShadowed(uintptr_t address, uint64_t bytes) {
  return bytes <= kLargestShadowed && address % kShadowGrain == 0;
}

// A block that was taken out.
struct Shadowed {
  Offset row = 0;  // 0: it was not there
  uint32_t bytes = 0;
};

// Whether none stands at the words of a block that has just been allocated. If one does, its free was not seen.
HOLDFAST_HOT inline bool IsFreeShadow(const std::atomic<uint32_t>* word, uint64_t bytes) {
  if (UNLIKELY(IsShadowedRow(word[0].load(std::memory_order_relaxed)))) return false;
  return UNLIKELY(bytes <= kShadowGrain) || LIKELY(!IsShadowedRow(word[1].load(std::memory_order_relaxed)));
}
// First its size; then its row: a reader that finds that finds (release) the row's record and the size.
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

// The word of `address`, or null if there is none yet. That of null is the table's first word, which looks like a row.
HOLDFAST_HOT inline std::atomic<uint32_t>* ShadowWord(SharedTable* table, ShadowDirectory* directory,
                                                      uintptr_t address) {
  const uint64_t page = address >> kShadowShift;
  // Acquire: who finds the chunk finds it empty.
  const uint64_t entry = directory->chunks[page % kShadowChunks].load(std::memory_order_acquire);
  if (UNLIKELY(entry >> 32 != page)) return nullptr;  // also where it is 0, as no block lies in the first pages
  auto* word = &table->At<ShadowChunk>(static_cast<Offset>(entry))->slots[address / kShadowGrain % kShadowSlots];
  if (word == nullptr) __builtin_unreachable();  // so who asks for null need not look twice
  return word;
}
// The same, made now if it can be.
std::atomic<uint32_t>* MakeShadowWord(SharedTable* table, ShadowDirectory* directory, uintptr_t address);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_SHADOW_MAP_H_
