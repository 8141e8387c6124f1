// How free() knows, without a cache miss, that a block was not sampled.
//
// Two tests, which may both err only towards "perhaps":
// 1. The tag. Sampled blocks are at multiples of 1,024 (or 16 above, where glibc puts blocks that it maps), so a block
//    elsewhere was not sampled. 31 of 32 ordinary blocks end here: one `test` and one branch. (With glibc, large
//    samples may be anywhere: free recognizes them by their size, interpose/heap/large_samples.h.)
// 2. The filter. One byte for each 1,024 bytes of address space (modulo 4 GiB) counts the sampled blocks that begin
//    there; for a single one it names the level of the live table. Neighbours in the heap are neighbours in the filter,
//    so it is as warm as the heap.
// Only blocks that pass both are searched in the live table.
//
// At small intervals every block would have to be moved to a tagged address, so the tag is switched off: with mask 0
// all blocks pass test 1. The mask is also 0 until the shim is ready, which leads every free to its slow path. It
// changes only from 0 to kTagMask before the first sample, and back to 0 once, for good.
#ifndef HOLDFAST_SAMPLER_HOT_PATH_SAMPLED_FILTER_H_
#define HOLDFAST_SAMPLER_HOT_PATH_SAMPLED_FILTER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"

namespace holdfast {

inline constexpr size_t kTagAlignment = 1024;
inline constexpr uint32_t kTagMask = (kTagAlignment - 1) & ~size_t{31};  // bits 5..9: bit 4 may be set
// At smaller intervals, tagged addresses would make the heap grow by more than 1 %.
inline constexpr size_t kSmallestTagged = 256 << 10;
inline constexpr size_t kFilterBytes =
    (size_t{1} << 32) / kTagAlignment;  // 4 MiB: the low half of an address, no mask needed

// Blocks in this range must never be taken for ordinary ones, sampled or not: their counters are set for good, before
// the first sample.
struct AlwaysAsk {
  const char* start;
  size_t bytes;
};

struct alignas(64) SampledFilter {
  std::atomic<uint32_t> tag_mask{0};
  // The same for operator delete: 0 until delete is known to be able to call free directly
  // (interpose/heap/operators.h).
  std::atomic<uint32_t> delete_mask{0};
  // The same for malloc_usable_size, which only looks for blocks that the real allocator does not know: those of
  // always_ask, at multiples of 1,024. If there are none, a mask that no block passes.
  std::atomic<uint32_t> usable_mask{0};
  std::atomic<uint8_t*> counters{nullptr};  // kFilterBytes in private memory; null until the first sample
  // The same for SurelyNotSampled; also null when some samples have no counter, because only
  // sampler/table/shadow_map.h knows them.
  std::atomic<uint8_t*> sure{nullptr};
  std::atomic<bool> some_have_none{false};
  AlwaysAsk always_ask[2] = {};
};

extern HOLDFAST_HIDDEN SampledFilter sampled_filter;

// Which blocks may come from another allocator than glibc's, so that several tiny ones may be where glibc has one: see
// sampler/table/shadow_map.h. Two threads that write one word would need a locked instruction in each allocation.
enum OtherAllocators : uint32_t { kOtherMalloc = 1, kOtherNew = 2, kOtherEntries = 4 };
extern HOLDFAST_HIDDEN std::atomic<uint32_t> other_allocators;  // kOtherMalloc until malloc is known to be glibc's

inline bool IsTagged(const void* block) { return (reinterpret_cast<uintptr_t>(block) & kTagMask) == 0; }

// Test 1, one `test` with memory and a branch. A relaxed load suffices: the mask is cleared before the program gets the
// first untagged sample, and a thread that frees that block got its address from there.
HOLDFAST_HOT inline bool PassesTag(const void* block, const std::atomic<uint32_t>& mask = sampled_filter.tag_mask) {
  static_assert(sizeof mask == sizeof(uint32_t));
  return SharesNoBit(reinterpret_cast<const uint32_t&>(mask),
                     static_cast<uint32_t>(reinterpret_cast<uintptr_t>(block)));
}

inline size_t FilterIndex(const void* block) {
  return static_cast<uint32_t>(reinterpret_cast<uintptr_t>(block)) / kTagAlignment;
}

// Test 2.
inline bool IsCounted(const void* block) {
  const uint8_t* counters = sampled_filter.counters.load(std::memory_order_relaxed);
  return counters != nullptr && __atomic_load_n(&counters[FilterIndex(block)], __ATOMIC_RELAXED) != 0;
}
// Whether the block may be a sample: its counter is not 0, or some samples have no counter.
inline bool PassesFilter(const void* block) {
  return IsCounted(block) || sampled_filter.some_have_none.load(std::memory_order_relaxed);
}

// Test 2 at its cheapest, for a block that passed test 1: true if nothing more must be checked. False for early blocks
// (see MarkAlwaysAsk) and, before the first sample, for all blocks.
HOLDFAST_HOT inline bool SurelyNotSampled(const void* block) {
  const uint8_t* counters = sampled_filter.sure.load(std::memory_order_relaxed);
  return LIKELY(counters != nullptr) && __atomic_load_n(&counters[FilterIndex(block)], __ATOMIC_RELAXED) == 0;
}

// The values of a counter:
//     0            no sample begins in these 1,024 bytes
//     1 … 12       one sample, in level 0 … 11 of the live table
//     129 … 254    1 … 126 samples, in unknown levels
//     255          the counter is full and never changes again: still right, but useless
inline constexpr uint8_t kFilterMany = 128;
inline constexpr uint8_t kFilterStuck = 255;

// `level`: of the live table; kAnyLevel: unknown.
inline constexpr int kAnyLevel = kFilterMany;
inline void AddToFilter(const void* block, int level) {
  uint8_t* counter = &sampled_filter.counters.load(std::memory_order_relaxed)[FilterIndex(block)];
  uint8_t value = __atomic_load_n(counter, __ATOMIC_RELAXED), next;
  do {
    if (value == kFilterStuck) return;
    next = static_cast<uint8_t>(value == 0 ? level + 1 : value < kFilterMany ? kFilterMany + 2 : value + 1);
  } while (!__atomic_compare_exchange_n(counter, &value, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
inline void RemoveFromFilter(const void* block) {
  uint8_t* counter = &sampled_filter.counters.load(std::memory_order_relaxed)[FilterIndex(block)];
  uint8_t value = __atomic_load_n(counter, __ATOMIC_RELAXED), next;
  do {
    if (value == kFilterStuck || value == 0) return;
    next = static_cast<uint8_t>(value <= kFilterMany + 1 ? 0 : value - 1);
  } while (!__atomic_compare_exchange_n(counter, &value, next, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
}
// Returns the level of the live table that has this block if it was sampled; −1: any level.
inline int LevelInFilter(const void* block) {
  const uint8_t value =
      __atomic_load_n(&sampled_filter.counters.load(std::memory_order_relaxed)[FilterIndex(block)], __ATOMIC_RELAXED);
  return value < kFilterMany ? value - 1 : -1;
}

// Call when some samples have no counter; and in a child of fork, which has no samples.
inline void BeginWithoutCounters() {
  sampled_filter.some_have_none.store(true);
  sampled_filter.sure.store(nullptr);
}
inline void EndWithoutCounters() {
  sampled_filter.sure.store(sampled_filter.counters.load());
  sampled_filter.some_have_none.store(false);
}

// Fills in the counters of a new filter.
inline void MarkAlwaysAsk(uint8_t* counters) {
  for (const AlwaysAsk& range : sampled_filter.always_ask) {
    for (size_t at = 0; at < range.bytes; at += kTagAlignment) counters[FilterIndex(range.start + at)] = kFilterStuck;
  }
}

// Switches test 1 off: a sample could neither be put at a tagged address nor be recognized otherwise.
inline void GiveUpTag() {
  sampled_filter.tag_mask.store(0);
  sampled_filter.delete_mask.store(0);
}
// Lets delete call free directly. Checks again after setting its mask: either this call sees that the tag was given up,
// or the thread that gives it up clears the mask later.
inline void UseTagInDelete() {
  sampled_filter.delete_mask.store(sampled_filter.tag_mask.load());
  if (sampled_filter.tag_mask.load() == 0) sampled_filter.delete_mask.store(0);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_SAMPLED_FILTER_H_
