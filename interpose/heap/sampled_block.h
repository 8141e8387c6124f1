// Places sampled blocks. With the tag in use (sampler/hot_path/sampled_filter.h) a sample must be at a tagged address,
// or be known by its size (interpose/heap/large_samples.h), so that free recognizes all others at once. It is still an
// ordinary block of the real allocator, safe in any free.
#ifndef HOLDFAST_INTERPOSE_HEAP_SAMPLED_BLOCK_H_
#define HOLDFAST_INTERPOSE_HEAP_SAMPLED_BLOCK_H_

#include <errno.h>
#include <string.h>

#include <algorithm>

#include "interpose/base/real.h"
#include "interpose/heap/large_samples.h"
#include "interpose/heap/parked_blocks.h"
#include "sampler/arch/processor.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/record/exact.h"
#include "sampler/record/heap.h"

namespace holdfast {

// A block of up to this size may be cleared or copied to bring it to a tagged address. glibc maps every larger one
// (DEFAULT_MMAP_THRESHOLD_MAX), which puts it at a tagged address anyway. With another allocator the process gives up
// the tag, and every free then costs 10 more instructions. A copy of 32 MiB takes about 5 ms, but happens only after a
// realloc that made the same copy, or that cannot grow in place for the first time. (With glibc large blocks stay where
// they are: large_samples.h.)
inline constexpr size_t kLargestMoved = 32 << 20;

inline bool TagInUse() { return sampled_filter.tag_mask.load(std::memory_order_relaxed) != 0; }

// Gives up the tag if the block is not at a tagged address; any block may then be a sample.
inline void* KeepSampleable(void* block) {
  if (block != nullptr && !IsTagged(block) && TagInUse()) GiveUpTag();
  return block;
}

// At a tagged address, while the tag is in use.
inline void* AllocateTagged(size_t bytes) {
  if (TagInUse()) {
    EarnMove();
    if (void* block = TakeParked(bytes)) return block;
    const int error = errno;
    // Whole steps, so that a parked block fits every size of its step.
    const size_t steps = bytes <= kLargestParked ? (bytes + kParkedStep - 1) / kParkedStep * kParkedStep : bytes;
    if (void* block = real.memalign(kTagAlignment, steps)) return block;
    errno = error;  // out of memory for the alignment, perhaps not for the block
  }
  return KeepSampleable(real.malloc(bytes));
}

inline void* AllocateSampled(size_t bytes) {
  if (MayBeKnownBySize(bytes) && TagInUse()) {
    void* block = real.malloc(bytes);
    if (block == nullptr || IsTagged(block) || StaysUntagged(block, bytes)) return block;
    real.free(block);
  }
  return AllocateTagged(bytes);
}

// `allocate(alignment)`: the real function. `raisable`: the program's alignment is valid.
template <typename Allocate>
inline void* AllocateAlignedSampled(size_t alignment, size_t bytes, bool raisable, Allocate allocate) {
  if (!raisable || alignment >= kTagAlignment || !TagInUse()) return KeepSampleable(allocate(alignment));
  if (MayBeKnownBySize(bytes)) {
    void* block = allocate(alignment);
    if (block == nullptr || IsTagged(block) || StaysUntagged(block, bytes)) return block;
    real.free(block);
  }
  EarnMove();
  const int error = errno;
  void* block = allocate(kTagAlignment);
  if (block != nullptr) return block;
  errno = error;
  return KeepSampleable(allocate(alignment));
}

// Blocks of this size may have pages that were never written: they are zero already, and must stay untouched.
inline constexpr size_t kMayBeUntouched = 32 << 10;

// Writes zeros page by page, but only where needed: reading takes no memory.
inline void* ZeroWhereNeeded(void* block, size_t bytes) {
  const auto start = reinterpret_cast<uintptr_t>(block), end = start + bytes;
  for (uintptr_t at = start, next; at < end; at = next) {
    next = std::min((at / kPageBytes + 1) * kPageBytes, end);
    auto* piece = reinterpret_cast<char*>(at);
    if (*piece != 0 || memcmp(piece, piece + 1, next - at - 1) != 0) memset(piece, 0, next - at);
  }
  return block;
}

inline void* AllocateZeroedSampled(size_t count, size_t each, size_t bytes) {
  if (!TagInUse()) return real.calloc(count, each);
  const bool by_size = MayBeKnownBySize(bytes);
  if (by_size || bytes >= kMayBeUntouched) {  // if the real calloc maps it, it is at a tagged address
    void* block = real.calloc(count, each);
    if (block == nullptr || IsTagged(block) || (by_size && StaysUntagged(block, bytes))) return block;
    if (bytes > kLargestMoved) return KeepSampleable(block);
    real.free(block);
  }
  void* block = AllocateTagged(bytes);
  if (block == nullptr) return nullptr;
  return bytes >= kMayBeUntouched ? ZeroWhereNeeded(block, bytes) : memset(block, 0, bytes);
}

// For a slow path after the countdown has run out: whether exact.h records this block. False before the shim is ready.
HOLDFAST_HOT inline bool IsDueExact(size_t bytes) { return LIKELY(ExactBegun()) && LIKELY(bytes <= kHotSizeLimit); }

// Records a block that the real function has just made, after TakeCharge, when every allocation is recorded. Inlined
// into the function that has the caller's registers.
HOLDFAST_HOT inline void* RecordExact(CallerRegisters caller, void* block, size_t bytes, int64_t charged) {
  if (LIKELY(RecordAllocExact(caller, block, bytes, charged))) return block;
  if (PutBackCharge(charged) && HeapEventDue(bytes)) RecordAlloc(InMemory(caller), KeepSampleable(block), bytes);
  return block;
}

// Frees a sampled block after its sample was removed.
inline void ReleaseSampled(void* block) {
  if (TagInUse() && IsTagged(block) && Park(block, real.malloc_usable_size(block))) return;
  real.free(block);
}

// Marked warm although it is cold: in cold code the compiler copies by `rep movsb`.
HOLDFAST_WARM inline void CopyBytes(void* to, const void* from, size_t bytes) { memcpy(to, from, bytes); }

// Call after realloc, which itself decides where a block is. Never fails: at worst the tag is given up. `filled`: bytes
// that may have been written; the pages of the others stay untouched.
inline void* MoveToTaggedAddress(void* block, size_t bytes, size_t filled) {
  if (!TagInUse() || IsTagged(block) || (MayBeKnownBySize(bytes) && StaysUntagged(block, bytes))) return block;
  if (bytes <= kLargestMoved) {
    EarnMove();
    const int error = errno;
    if (void* moved = real.memalign(kTagAlignment, bytes)) {
      CopyBytes(moved, block, std::min(bytes, filled));
      real.free(block);
      return moved;
    }
    errno = error;
  }
  return KeepSampleable(block);
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_SAMPLED_BLOCK_H_
