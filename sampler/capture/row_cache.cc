#include "sampler/capture/row_cache.h"

namespace holdfast {

alignas(4096) constinit RowSet row_sets[kSets] = {};
constinit std::atomic<uint32_t> row_set_mask{kFirstSets - 1};
constinit std::atomic<uint64_t> walk_generation{1};

namespace {

constinit std::atomic<uint64_t> generation{1};
constinit std::atomic<uint64_t> unloadable_generation{1};
constinit std::atomic<uint32_t> displaced{0};  // rows, from the first sets

}  // namespace

// Never a value with which an untouched slot (0, 0) would match: addresses have no bit 63.
HOLDFAST_WARM RowSalts CurrentRowSalts() {
  const uint64_t all = generation.load(std::memory_order_acquire) * kRowMix;
  const uint64_t some = unloadable_generation.load(std::memory_order_acquire) * (kRowMix ^ kRowMix << 32);
  return {all | uint64_t{1} << 63, (all ^ some) | uint64_t{1} << 63};
}

void KeepRow(uintptr_t pc, const RowSalts& salts, UnwindRow row) {
  RowSet& set = RowSetOf(pc, row_set_mask.load(std::memory_order_relaxed));
  constexpr uint32_t kMostDisplaced = kFirstSets / 4;
  if (set.slots[1].key.load(std::memory_order_relaxed) != 0 &&
      displaced.fetch_add(1, std::memory_order_relaxed) == kMostDisplaced)
    row_set_mask.store(kSets - 1, std::memory_order_relaxed);
  set.slots[1].key.store(set.slots[0].key.load(std::memory_order_relaxed), std::memory_order_relaxed);
  set.slots[1].row.store(set.slots[0].row.load(std::memory_order_relaxed), std::memory_order_relaxed);
  set.slots[0].key.store(pc ^ row.bits * kRowMix ^ salts.For(row), std::memory_order_relaxed);
  set.slots[0].row.store(row.bits, std::memory_order_relaxed);
}

void ForgetUnwindRows() {
  generation.fetch_add(1, std::memory_order_acq_rel);
  walk_generation.fetch_add(1, std::memory_order_acq_rel);
}

// Rows of unloaded modules may still be on their way to the cache: a walk that began earlier has the older salt.
void ForgetUnloadableRows() {
  unloadable_generation.fetch_add(1, std::memory_order_acq_rel);
  walk_generation.fetch_add(1, std::memory_order_acq_rel);
}

}  // namespace holdfast
