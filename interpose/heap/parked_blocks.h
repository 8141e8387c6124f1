// Freed sampled blocks, kept for the next samples of the same size.
//
// A sampled block is at a tagged address (sampler/hot_path/sampled_filter.h). If it were given back at once, the
// allocator would return it as an ordinary block, most often to the next malloc of that size, and each of its frees
// would take the slow path: a program that allocates and frees one size in a loop would pay on every turn. The
// allocator would also have to cut a new aligned block out of its heap for every sample, which fragments the heap.
//
// A parked block stays in the filter, so that a second free of it finds out, and leaves it to the allocator: that
// reports a double free in its own way.
//
// One block for each 16 bytes of size up to 1,024: 32 KiB at most in a process. Any thread; lock-free.
#ifndef HOLDFAST_INTERPOSE_HEAP_PARKED_BLOCKS_H_
#define HOLDFAST_INTERPOSE_HEAP_PARKED_BLOCKS_H_

#include <stddef.h>

#include <atomic>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/process/process.h"

namespace holdfast {

inline constexpr size_t kParkedStep = 16;
inline constexpr size_t kLargestParked = 1024;
// A block's address, and in its lowest bits the process's epoch: the filter of a forked child does not have the blocks
// that its parent parked.
extern HOLDFAST_HIDDEN std::atomic<uintptr_t> parked_blocks[kLargestParked / kParkedStep];

inline constexpr uintptr_t kParkedEpochs = 16;  // sampled blocks are at multiples of 16
inline uintptr_t ParkedNow(void* block) {
  return reinterpret_cast<uintptr_t>(block) | process.epoch.load(std::memory_order_relaxed) % kParkedEpochs;
}
inline void* TakenFromPlace(uintptr_t parked) {
  void* block = reinterpret_cast<void*>(parked & ~(kParkedEpochs - 1));
  if (parked != 0 && parked == ParkedNow(block)) RemoveFromFilter(block);
  return block;
}

// Returns a parked block of at least `bytes`, or null.
inline void* TakeParked(size_t bytes) {
  if (bytes == 0 || bytes > kLargestParked) return nullptr;
  auto& place = parked_blocks[(bytes - 1) / kParkedStep];
  // Acquire: its former owner no longer uses it.
  return place.load(std::memory_order_relaxed) != 0 ? TakenFromPlace(place.exchange(0, std::memory_order_acquire))
                                                    : nullptr;
}

// Keeps a block of `usable` bytes. False: the place is taken, or the block is too large; free it.
inline bool Park(void* block, size_t usable) {
  const size_t steps = usable / kParkedStep;
  if (steps == 0 || steps > kLargestParked / kParkedStep) return false;
  auto& place = parked_blocks[steps - 1];
  if (place.load(std::memory_order_relaxed) != 0) return false;
  AddToFilter(block, kAnyLevel);
  uintptr_t none = 0;
  if (place.compare_exchange_strong(none, ParkedNow(block), std::memory_order_release, std::memory_order_relaxed))
    return true;
  RemoveFromFilter(block);
  return false;
}

// For a block of `usable` bytes that the program frees although it has no sample: whether it was parked. It no longer is.
inline bool Unpark(void* block, size_t usable) {
  const size_t steps = usable / kParkedStep;
  if (steps == 0 || steps > kLargestParked / kParkedStep) return false;
  auto& place = parked_blocks[steps - 1];
  uintptr_t parked = place.load(std::memory_order_relaxed);
  if (parked == 0 || (parked & ~(kParkedEpochs - 1)) != reinterpret_cast<uintptr_t>(block) ||
      !place.compare_exchange_strong(parked, 0, std::memory_order_acquire, std::memory_order_relaxed))
    return false;
  TakenFromPlace(parked);
  return true;
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_PARKED_BLOCKS_H_
