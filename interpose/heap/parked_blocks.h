// Freed sampled blocks, kept for the next samples of the same size.
//
// A sampled block is at a tagged address (sampler/hot_path/sampled_filter.h). If it were given back at once, the
// allocator would return it as an ordinary block, most often to the next malloc of that size, and each of its frees
// would take the slow path: a program that allocates and frees one size in a loop would pay on every turn. The
// allocator would also have to cut a new aligned block out of its heap for every sample, which fragments the heap.
//
// One block for each 16 bytes of size up to 1,024: 32 KiB at most in a process. Any thread; lock-free.
#ifndef HOLDFAST_INTERPOSE_HEAP_PARKED_BLOCKS_H_
#define HOLDFAST_INTERPOSE_HEAP_PARKED_BLOCKS_H_

#include <stddef.h>

#include <atomic>

#include "sampler/contract/attributes.h"

namespace holdfast {

inline constexpr size_t kParkedStep = 16;
inline constexpr size_t kLargestParked = 1024;
extern HOLDFAST_HIDDEN std::atomic<void*> parked_blocks[kLargestParked / kParkedStep];

// Returns a parked block of at least `bytes`, or null.
inline void* TakeParked(size_t bytes) {
  if (bytes == 0 || bytes > kLargestParked) return nullptr;
  auto& place = parked_blocks[(bytes - 1) / kParkedStep];
  // Acquire: its former owner no longer uses it.
  return place.load(std::memory_order_relaxed) != nullptr ? place.exchange(nullptr, std::memory_order_acquire)
                                                          : nullptr;
}

// Keeps a block of `usable` bytes. False: the place is taken, or the block is too large; free it.
inline bool Park(void* block, size_t usable) {
  const size_t steps = usable / kParkedStep;
  if (steps == 0 || steps > kLargestParked / kParkedStep) return false;
  void* none = nullptr;
  return parked_blocks[steps - 1].compare_exchange_strong(none, block, std::memory_order_release,
                                                          std::memory_order_relaxed);
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_PARKED_BLOCKS_H_
