// How free() knows, without a cache miss, that a block was not sampled.
//
// Two tests, each of which may only err towards "perhaps":
// 1. the tag: sampled blocks lie at multiples of 1,024 (or 16 above one, where glibc puts blocks that it maps), so a block
//    elsewhere was not sampled. Of ordinary blocks 31 in 32 end here: one `test` and one branch. (Large samples may lie
//    anywhere with glibc below: known by their size, interpose/heap/large_samples.h.)
// 2. the filter: a counter for each 1,024 bytes of address space (modulo 4 GiB), 1 byte each, of sampled blocks that begin
//    there (and if there is one, where it is to be found). Neighbours in the heap are neighbours in the filter: it is as
//    warm as the heap is.
// Only then is the table of live samples asked.
//
// At small intervals every block would have to be moved to a tagged address, so there the tag is switched off: mask 0, all
// blocks pass test 1. The mask also is 0 until the shim is ready, which leads every free to its slow path. It only
// ever goes from 0 to kTagMask before the first sample, and back to 0 once, for good.
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
// At smaller intervals so many blocks would have to lie at tagged addresses that the heap would grow by more than 1 %.
inline constexpr size_t kSmallestTagged = 256 << 10;
inline constexpr size_t kFilterBytes =
    (size_t{1} << 32) / kTagAlignment;  // 4 MiB: the low half of an address, no mask needed

// Blocks in this range must never be taken for ordinary ones, whatever was sampled: their counters are set for good.
// Set before the first sample.
struct AlwaysAsk {
  const char* start;
  size_t bytes;
};

struct alignas(64) SampledFilter {
  std::atomic<uint32_t> tag_mask{0};
  // The same for operator delete: stays 0 until it is known that delete may go straight to free (interpose/heap/operators.h).
  std::atomic<uint32_t> delete_mask{0};
  // The same for malloc_usable_size, which only has to know blocks that the real allocator does not: those of always_ask,
  // at multiples of 1,024. Without any: a mask that no block passes.
  std::atomic<uint32_t> usable_mask{0};
  std::atomic<uint8_t*> counters{nullptr};  // kFilterBytes of them, in private memory; null until the first sample
  // The same for who would be content with them; null also where some samples have none, as sampler/tables/shadow_map.h knows them.
  std::atomic<uint8_t*> sure{nullptr};
  std::atomic<bool> some_have_none{false};
  AlwaysAsk always_ask[2] = {};
};

extern HOLDFAST_HIDDEN SampledFilter sampled_filter;

inline bool IsTagged(const void* block) { return (reinterpret_cast<uintptr_t>(block) & kTagMask) == 0; }

// Test 1, one `test` with memory and a branch. A relaxed load: the mask is cleared before the first untagged sample is
// handed to the program, and a thread that frees that block got its address from there.
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
// Or there may be no counter for it.
inline bool PassesFilter(const void* block) {
  return IsCounted(block) || sampled_filter.some_have_none.load(std::memory_order_relaxed);
}

// Test 2 for a block that passed test 1, at its cheapest: true if there is nothing more to ask. Early blocks (see
// MarkAlwaysAsk) and, before the first sample, all blocks get a "no".
HOLDFAST_HOT inline bool SurelyNotSampled(const void* block) {
  const uint8_t* counters = sampled_filter.sure.load(std::memory_order_relaxed);
  return LIKELY(counters != nullptr) && __atomic_load_n(&counters[FilterIndex(block)], __ATOMIC_RELAXED) == 0;
}

// What a counter says:
//     0            no sample begins in these 1,024 bytes
//     1 … 12       one does, and stands in this level of the live table, less one
//     129 … 254    one or more do, 1 … 126, in levels that nobody remembers
//     255          as many as there may be: it stays so, right for ever, if useless
inline constexpr uint8_t kFilterMany = 128;
inline constexpr uint8_t kFilterStuck = 255;

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
// The level of the live table in which this block stands if it was sampled; −1: in any.
inline int LevelInFilter(const void* block) {
  const uint8_t value =
      __atomic_load_n(&sampled_filter.counters.load(std::memory_order_relaxed)[FilterIndex(block)], __ATOMIC_RELAXED);
  return value < kFilterMany ? value - 1 : -1;
}

// Some samples have no counter from now on; and in a child of fork, which has no samples, none.
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

// Test 1 lets everything pass from now on: a sample could not be put at a tagged address, nor be known otherwise.
inline void GiveUpTag() {
  sampled_filter.tag_mask.store(0);
  sampled_filter.delete_mask.store(0);
}
// Delete may go straight to free from now on. Looks again after setting its mask: either it sees the tag given up, or
// whoever gives it up clears the mask later.
inline void UseTagInDelete() {
  sampled_filter.delete_mask.store(sampled_filter.tag_mask.load());
  if (sampled_filter.tag_mask.load() == 0) sampled_filter.delete_mask.store(0);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_SAMPLED_FILTER_H_
