// The process-wide cache of unwind rows, one for each code address.
//
// Sets of two slots; a new row goes first and moves the first one to second place. A slot is two words, written without
// a lock. The key is the address mixed with the row and the generation, so halves of two different writes, or a row of
// an older generation, match no address.
//
// At first the sets of two pages are used: a short process, such as a forked child, writes a hundred rows or two, and each
// page that it touches costs it a microsecond. Once rows displace others, all sets are used, and rows in the wrong one are
// found anew.
//
// Any thread, signal handlers.
#ifndef HOLDFAST_SAMPLER_CAPTURE_ROW_CACHE_H_
#define HOLDFAST_SAMPLER_CAPTURE_ROW_CACHE_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/unwind/unwind_row.h"

namespace holdfast {

// Salts of the keys: one for rows of modules that stay, one for modules that may be unloaded.
struct RowSalts {
  uint64_t lasting, unloadable;
  uint64_t For(UnwindRow row) const { return row.unloadable() ? unloadable : lasting; }
};
RowSalts CurrentRowSalts();

void KeepRow(uintptr_t pc, const RowSalts& salts, UnwindRow row);

// For a new table (fork): forgets all rows. A child of fork needs nothing else: no thread of the parent can leave
// anything locked here.
void ForgetUnwindRows();

// Call after a dlclose: forgets the rows of modules that were not loaded with the program.
void ForgetUnloadableRows();

// Changes whenever rows are forgotten, and when a dlclose begins: results from earlier rows are then invalid.
extern HOLDFAST_HIDDEN std::atomic<uint64_t> walk_generation;

// ---- How a row is found ----

inline constexpr uint32_t kFirstSets = 256, kSets = 8192;  // 8 and 256 KiB, touched only as used
inline constexpr uint64_t kRowMix = 0x9e3779b97f4a7c15;

struct RowSlot {
  std::atomic<uint64_t> key;
  std::atomic<uint64_t> row;
};
struct alignas(32) RowSet {
  RowSlot slots[2];
};
extern HOLDFAST_HIDDEN RowSet row_sets[kSets];
extern HOLDFAST_HIDDEN std::atomic<uint32_t> row_set_mask;  // of the sets in use

// `mask`: row_set_mask, read once for a walk.
HOLDFAST_HOT inline RowSet& RowSetOf(uintptr_t pc, uint32_t mask) { return row_sets[(pc ^ pc >> 13) & mask]; }

// Relaxed: a slot proves itself, so it does not matter which of its values a thread sees.
HOLDFAST_HOT inline bool Matches(const RowSlot& slot, uintptr_t pc, uint64_t salt, UnwindRow* row) {
  row->bits = slot.row.load(std::memory_order_relaxed);
  return (slot.key.load(std::memory_order_relaxed) ^ row->bits * kRowMix ^ salt) == pc;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_ROW_CACHE_H_
