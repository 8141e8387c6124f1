// The malloc family. Each wrapper's hot path is the whole of its first lines; the rest is out of line.
//
// The one malloc, from end to end:
//   malloc → ChargeHeap (one subtraction) → the real malloc
//        └→ MallocSlow → HeapEventDue → real memalign → RecordAlloc → CaptureStack, InternStack, InsertLive
//   free   → PassesTag (one test) → the real free (with large samples: after a test of the size before the block)
//        └→ FreePerhapsSampled → PassesFilter → TakeSample, RecordFree → the real free
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>

#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/heap/early_arena.h"
#include "interpose/heap/perhaps_sampled.h"
#include "interpose/heap/sampled_block.h"
#include "sampler/arch/processor.h"
#include "sampler/record/exact.h"
#include "sampler/record/heap.h"

namespace holdfast {

namespace {

// ---- Slow paths ----

// When every allocation is recorded: the real function, then the sample, by a jump, so that the real one runs above as
// small a frame as possible, and the recording code exists once. Hot, although out of line.
HOLDFAST_WARM void* RecordMade(void* block, size_t bytes) {
  return RecordExact(HOLDFAST_CALLER(), block, bytes, static_cast<int64_t>(bytes));
}
// The same if more than this block was charged, or it has 0 bytes.
__attribute__((noinline)) void* RecordMadeAfterMore(void* block, size_t bytes, int64_t charged) {
  return RecordExact(HOLDFAST_CALLER(), block, bytes, charged);
}

// Separate functions: inside the others they would cost every call a frame, 5 instructions.
__attribute__((noinline)) void* MallocExactAfterMore(size_t bytes, int64_t charged) {
  return RecordMadeAfterMore(real.malloc(bytes), bytes, charged);
}
HOLDFAST_WARM void* MallocExact(size_t bytes) {
  const int64_t charged = TakeCharge();
  if (UNLIKELY(charged != static_cast<int64_t>(bytes))) return MallocExactAfterMore(bytes, charged);
  return RecordMade(real.malloc(bytes), bytes);
}

__attribute__((noinline)) void* CallocExactAfterMore(size_t count, size_t each, int64_t charged) {
  return RecordMadeAfterMore(real.calloc(count, each), count * each, charged);
}
HOLDFAST_WARM void* CallocExact(size_t count, size_t each) {
  const size_t bytes = count * each;
  const int64_t charged = TakeCharge();
  if (UNLIKELY(charged != static_cast<int64_t>(bytes))) return CallocExactAfterMore(count, each, charged);
  return RecordMade(real.calloc(count, each), bytes);
}

__attribute__((noinline)) void* MallocSampled(size_t bytes) {
  if (!HeapEventDue(bytes)) return real.malloc(bytes);
  void* block = AllocateSampled(bytes);
  RecordAlloc(HOLDFAST_CALLER(), block, bytes);
  return block;
}

// The countdown has run out: a sample is due, or no allocator can satisfy the size, or the shim is not ready yet.
HOLDFAST_WARM void* MallocSlow(size_t bytes) {
  if (IsDueExact(bytes)) return MallocExact(bytes);
  if (hot_size_limit == 0 && !ReadyAfterCharge(bytes)) return AllocateEarly(bytes, 1);
  return MayBeDue(bytes) ? MallocSampled(bytes) : real.malloc(bytes);
}

HOLDFAST_COLD void* CallocOverflowSlow(size_t count, size_t each) {
  return Ready() ? real.calloc(count, each) : nullptr;  // fails, with its own errno
}

__attribute__((noinline)) void* CallocSampled(size_t count, size_t each) {
  const size_t bytes = count * each;
  if (!HeapEventDue(bytes)) return real.calloc(count, each);
  void* block = AllocateZeroedSampled(count, each, bytes);
  RecordAlloc(HOLDFAST_CALLER(), block, bytes);
  return block;
}

HOLDFAST_WARM void* CallocSlow(size_t count, size_t each) {
  const size_t bytes = count * each;
  if (IsDueExact(bytes)) return CallocExact(count, each);
  if (hot_size_limit == 0 && !ReadyAfterCharge(bytes)) return AllocateEarly(bytes, 1);
  return MayBeDue(bytes) ? CallocSampled(count, each) : real.calloc(count, each);
}

// Removes the sample of a block that may have one; true if it had.
HOLDFAST_COLD bool TakeOutSlow(void* block) {
  const TakenLive taken = TakeSample(block);
  if (!taken.sampled()) return false;
  RecordFree(taken, block);
  return true;
}

// For a block that has no sample. No longer parked if it was. A parked block has no level in the filter.
HOLDFAST_COLD bool WasParked(void* block) {
  return LevelInFilter(block) < 0 && IsTagged(block) && Unpark(block, real.malloc_usable_size(block));
}

void* ReallocEarly(void* block, size_t bytes, const CallerRegisters& caller) {
  void* moved;
  if (!Ready()) {
    moved = AllocateEarly(bytes, 1);
  } else {
    const bool due = bytes <= kHotSizeLimit && ChargeHeap(bytes) && HeapEventDue(bytes);
    moved = due ? AllocateSampled(bytes) : real.malloc(bytes);
    if (due) RecordAlloc(caller, moved, bytes);
  }
  if (moved != nullptr) memcpy(moved, block, bytes < EarlySize(block) ? bytes : EarlySize(block));
  return moved;
}

// The four cases: grown in place, moved, failed (the old block and its sample stay), size 0 (freed).
__attribute__((noinline)) void* ReallocPerhapsTaken(void* block, size_t bytes) {
  const TakenLive old = TakeSample(block);
  void* moved = real.realloc(block, bytes);
  if (moved == nullptr && bytes != 0) {
    PutBackSample(old, block);
  } else if (old.sampled()) {
    RecordFree(old, block, true);
  }
  return moved;
}
inline __attribute__((always_inline)) void* ReallocReal(void* block, size_t bytes) {
  if (LIKELY(block == nullptr || SurelyNotSampled(block))) return real.realloc(block, bytes);
  return ReallocPerhapsTaken(block, bytes);
}

HOLDFAST_COLD void* ReallocSampled(void* block, size_t bytes) {
  const bool needs_tag = TagInUse();
  void* moved;
  if (needs_tag && block == nullptr) {
    moved = AllocateSampled(bytes);
  } else {
    const size_t filled = needs_tag ? real.malloc_usable_size(block) : 0;  // the program has not written beyond it
    moved = ReallocReal(block, bytes);
    if (moved == nullptr) return nullptr;
    moved = MoveToTaggedAddress(moved, bytes, filled);
  }
  RecordAlloc(HOLDFAST_CALLER(), moved, bytes);
  return moved;
}

HOLDFAST_WARM void* ReallocExact(void* block, size_t bytes) {
  const int64_t charged = TakeCharge();
  const TakenExact old(block);
  void* moved;
  if (LIKELY(old.found())) {
    moved = real.realloc(block, bytes);
    moved != nullptr || bytes == 0 ? old.Freed(block, true) : old.Stays();
  } else {
    moved = ReallocReal(block, bytes);
  }
  if (UNLIKELY(charged != static_cast<int64_t>(bytes))) return RecordMadeAfterMore(moved, bytes, charged);
  return RecordMade(moved, bytes);
}

HOLDFAST_WARM void* ReallocDue(void* block, size_t bytes) {
  if (ExactBegun()) return ReallocExact(block, bytes);
  return HeapEventDue(bytes) ? ReallocSampled(block, bytes) : ReallocReal(block, bytes);
}

template <bool kCharged>
HOLDFAST_COLD void* ReallocSlow(void* block, size_t bytes) {
  if (block == nullptr) {
    if (!kCharged && !Ready()) return AllocateEarly(bytes, 1);
  } else if (IsEarly(block)) {
    return ReallocEarly(block, bytes, HOLDFAST_CALLER());
  }
  // realloc(p, 0) frees, so it charges nothing; reallocarray(NULL, 0, n) is malloc(0).
  const bool allocates = bytes != 0 || block == nullptr;
  const bool due = allocates && (kCharged ? MayBeDue(bytes) : bytes <= kHotSizeLimit && ChargeHeap(bytes));
  return due ? ReallocDue(block, bytes) : ReallocReal(block, bytes);
}

HOLDFAST_COLD void* ReallocNullSlow(size_t bytes) {
  if (hot_size_limit == 0 && !ReadyAfterCharge(bytes)) return AllocateEarly(bytes, 1);
  return ReallocSlow<true>(nullptr, bytes);
}

// For a block at an address where samples may be. Warm rather than cold, like FreePerhapsSampled.
HOLDFAST_WARM void* ReallocPerhapsSampled(void* block, size_t bytes) {
  if (LIKELY(SurelyNotSampled(block))) {
    if (LIKELY(!ChargeHeapUnlessZero(bytes))) return real.realloc(block, bytes);
    return ReallocSlow<true>(block, bytes);
  }
  return ReallocSlow<false>(block, bytes);
}

// The aligned family: one slow path for all, because only the real function differs.
template <typename Allocate>
HOLDFAST_COLD void* AlignedSlow(const CallerRegisters& caller, size_t alignment, size_t bytes, Allocate allocate,
                                size_t smallest_alignment) {
  // Let the real function reject invalid alignments. (posix_memalign also requires a multiple of a pointer's size;
  // every power of two from there on is one.)
  const bool valid = alignment >= smallest_alignment && (alignment & (alignment - 1)) == 0;
  void* block = AllocateAlignedSampled(alignment, bytes, valid, allocate);
  RecordAlloc(caller, block, bytes);
  return block;
}
template <typename Allocate>
inline void* AllocateAligned(const CallerRegisters& caller, size_t alignment, size_t bytes, Allocate allocate,
                             size_t smallest_alignment = 1) {
  if (bytes > kHotSizeLimit || !ChargeHeap(bytes) || !HeapEventDue(bytes)) return allocate(alignment);
  return AlignedSlow(caller, alignment, bytes, allocate, smallest_alignment);
}

// A block that may be an early one, or any block before the shim is ready.
__attribute__((noinline)) size_t UsableSizeSlow(void* block) {
  if (UNLIKELY(IsEarly(block))) return EarlySize(block);
  return Ready() ? real.malloc_usable_size(block) : 0;
}

}  // namespace

HOLDFAST_WARM void FreePerhapsSampled(void* block) {
  if (LIKELY(SurelyNotSampled(block))) return real.free(block);
  if (ExactBegun() && RecordFreeExact(block)) return real.free(block);
  if (IsEarly(block) || !Ready()) return;
  if (PassesFilter(block)) {
    if (TakeOutSlow(block)) return ReleaseSampled(block);
    // The program has freed it before: this is the first free that the allocator sees.
    if (WasParked(block)) real.free(block);
  }
  real.free(block);
}

HOLDFAST_WARM void LibcFreePerhapsSampled(void* block) {
  if (LIKELY(SurelyNotSampled(block))) return real.__libc_free(block);
  if (IsEarly(block) || !Ready()) return;
  if (PassesFilter(block) && !TakeOutSlow(block) && WasParked(block)) real.__libc_free(block);
  real.__libc_free(block);
}

HOLDFAST_WARM void* LibcReallocPerhapsSampled(void* block, size_t bytes) {
  if (LIKELY(SurelyNotSampled(block))) return real.__libc_realloc(block, bytes);
  if (IsEarly(block) || !Ready()) return realloc(block, bytes);
  if (!PassesFilter(block)) return real.__libc_realloc(block, bytes);
  const TakenLive old = TakeSample(block);
  void* moved = real.__libc_realloc(block, bytes);
  if (!old.sampled()) return moved;
  if (moved == nullptr && bytes != 0) {
    PutBackSample(old, block);
  } else {
    RecordFree(old, block, true);
  }
  return moved;
}

HOLDFAST_COLD void* ReallocNoneDue(void* block, size_t bytes) { return ReallocReal(block, bytes); }

}  // namespace holdfast

using namespace holdfast;

extern "C" {

HOLDFAST_EXPORT void* malloc(size_t bytes) noexcept {
  if (LIKELY(!ChargeHeap(bytes))) return real.malloc(bytes);
  return MallocSlow(bytes);
}

HOLDFAST_EXPORT void free(void* block) noexcept {
  if (LIKELY(!PassesTag(block))) return untagged.free(block);
  return FreePerhapsSampled(block);
}

HOLDFAST_EXPORT void* calloc(size_t count, size_t each) noexcept {
  size_t bytes;
  if (UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) return CallocOverflowSlow(count, each);
  if (LIKELY(!ChargeHeap(bytes))) return real.calloc(count, each);
  return CallocSlow(count, each);
}

HOLDFAST_EXPORT void* realloc(void* block, size_t bytes) noexcept {
  if (LIKELY(!PassesTag(block))) {  // the tag's mask is 0 until the shim is ready
    if (LIKELY(!ChargeHeapUnlessZero(bytes))) return untagged.realloc(block, bytes);
    return ReallocSlow<true>(block, bytes);
  }
  if (block == nullptr) {  // half of all calls in some programs
    if (LIKELY(!ChargeHeap(bytes))) return real.realloc(nullptr, bytes);
    return ReallocNullSlow(bytes);
  }
  return ReallocPerhapsSampled(block, bytes);
}

// glibc's own reallocarray calls an interposed realloc; another allocator's may not. So the product is computed here,
// and the call counted once, as realloc.
HOLDFAST_EXPORT void* reallocarray(void* block, size_t count, size_t each) noexcept {
  size_t bytes;
  // The block belongs to another allocator; glibc's own form calls that one's realloc.
  if (UNLIKELY(!owns_malloc) && Ready()) return real.reallocarray(block, count, each);
  if (UNLIKELY(__builtin_mul_overflow(count, each, &bytes))) {
    errno = ENOMEM;
    return nullptr;
  }
  return ReallocSlow<false>(block, bytes);
}

// glibc's own names. Programs use them to bypass other allocators, and allocators on top of glibc call them all the
// time: so they must cost no more than free. Samples of malloc are removed; __libc_malloc is not recorded, so its
// blocks are not known here.
HOLDFAST_EXPORT void __libc_free(void* block) noexcept {
  if (LIKELY(!PassesTag(block))) return untagged.libc_free(block);
  return LibcFreePerhapsSampled(block);
}
HOLDFAST_EXPORT void* __libc_realloc(void* block, size_t bytes) noexcept {
  if (LIKELY(!PassesTag(block))) return untagged.libc_realloc(block, bytes);
  return LibcReallocPerhapsSampled(block, bytes);
}

// An allocator that has malloc may lack these: its blocks go to its own free.
HOLDFAST_EXPORT void cfree(void* block) noexcept {
  return UNLIKELY(others_free != nullptr) ? others_free(block) : free(block);
}
HOLDFAST_EXPORT void free_sized(void* block, size_t) noexcept {
  return UNLIKELY(others_free != nullptr) ? others_free(block) : free(block);
}
HOLDFAST_EXPORT void free_aligned_sized(void* block, size_t, size_t) noexcept {
  return UNLIKELY(others_free != nullptr) ? others_free(block) : free(block);
}

HOLDFAST_EXPORT int posix_memalign(void** result, size_t alignment, size_t bytes) noexcept {
  if (!Ready()) {
    *result = AllocateEarly(bytes, alignment);
    return *result != nullptr ? 0 : ENOMEM;
  }
  int error = 0;
  void* block = nullptr;
  AllocateAligned(
      HOLDFAST_CALLER(), alignment, bytes,
      [&](size_t with) {
        error = real.posix_memalign(&block, with, bytes);
        return error == 0 ? block : nullptr;
      },
      sizeof(void*));
  if (error == 0) *result = block;
  return error;
}

HOLDFAST_EXPORT void* aligned_alloc(size_t alignment, size_t bytes) noexcept {
  if (!Ready()) return AllocateEarly(bytes, alignment);
  return AllocateAligned(HOLDFAST_CALLER(), alignment, bytes,
                         [bytes](size_t with) { return real.aligned_alloc(with, bytes); });
}

HOLDFAST_EXPORT void* memalign(size_t alignment, size_t bytes) noexcept {
  if (!Ready()) return AllocateEarly(bytes, alignment);
  return AllocateAligned(HOLDFAST_CALLER(), alignment, bytes,
                         [bytes](size_t with) { return real.memalign(with, bytes); });
}

HOLDFAST_EXPORT void* valloc(size_t bytes) noexcept {
  if (!Ready()) return AllocateEarly(bytes, kLargestPageBytes);
  return AllocateAligned(HOLDFAST_CALLER(), PageBytes(), bytes, [bytes](size_t) { return real.valloc(bytes); });
}

HOLDFAST_EXPORT void* pvalloc(size_t bytes) noexcept {
  if (!Ready())
    return AllocateEarly((bytes + kLargestPageBytes - 1) / kLargestPageBytes * kLargestPageBytes, kLargestPageBytes);
  return AllocateAligned(HOLDFAST_CALLER(), PageBytes(), bytes, [bytes](size_t) { return real.pvalloc(bytes); });
}

HOLDFAST_EXPORT size_t malloc_usable_size(void* block) noexcept {
  if (LIKELY(!PassesTag(block, sampled_filter.usable_mask))) return real.malloc_usable_size(block);
  return UsableSizeSlow(block);
}

}  // extern "C"
