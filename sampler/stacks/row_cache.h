// The process-wide cache of unwind rows, one for each code address.
//
// Sets of two slots; a new row goes first and pushes the first one to second place. A slot is two words, written
// without a lock: the key is what the address becomes when mixed with the row and the generation, so that the halves of
// two different writes, or a row of an older generation, match no address.
//
// Any thread, signal handlers.
#ifndef HOLDFAST_SAMPLER_STACKS_ROW_CACHE_H_
#define HOLDFAST_SAMPLER_STACKS_ROW_CACHE_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/unwind/unwind_row.h"

namespace holdfast {

// What keys are mixed with: those of rows of modules that stay, and of those that may be unloaded.
struct RowSalts {
  uint64_t lasting, unloadable;
  uint64_t For(UnwindRow row) const { return row.unloadable() ? unloadable : lasting; }
};
RowSalts CurrentRowSalts();

void KeepRow(uintptr_t pc, const RowSalts& salts, UnwindRow row);

// The table is a new one (fork): forget all rows. That is all that a child of fork needs: nothing here can be left locked by
// another thread of the parent.
void ForgetUnwindRows();

// After a dlclose: the rows of modules that were not loaded with the program.
void ForgetUnloadableRows();

// Another one whenever rows are forgotten, and when a dlclose begins: what was worked out from rows before that no longer holds.
extern HOLDFAST_HIDDEN std::atomic<uint64_t> walk_generation;

// ---- How a row is found ----

inline constexpr int kSets = 8192;  // 256 KiB, of which only what is used is ever touched
inline constexpr uint64_t kRowMix = 0x9e3779b97f4a7c15;

struct RowSlot {
  std::atomic<uint64_t> key;
  std::atomic<uint64_t> row;
};
struct alignas(32) RowSet {
  RowSlot slots[2];
};
extern HOLDFAST_HIDDEN RowSet row_sets[kSets];

HOLDFAST_HOT inline RowSet& RowSetOf(uintptr_t pc) { return row_sets[(pc ^ pc >> 13) % kSets]; }

// Relaxed: a slot proves itself, and which of its values a thread sees does not matter.
HOLDFAST_HOT inline bool Matches(const RowSlot& slot, uintptr_t pc, uint64_t salt, UnwindRow* row) {
  row->bits = slot.row.load(std::memory_order_relaxed);
  return (slot.key.load(std::memory_order_relaxed) ^ row->bits * kRowMix ^ salt) == pc;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_ROW_CACHE_H_
