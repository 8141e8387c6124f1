#include "interpose/heap/wrappers.h"

#include <stddef.h>
#include <string.h>

#include "interpose/base/readiness.h"
#include "interpose/heap/early_arena.h"
#include "sampler/arch/processor.h"
#include "sampler/record/exact.h"
#include "sampler/record/heap.h"

namespace holdfast {

constinit void* own_reals[kOwnNameCount] = {};
constinit void* own_unsized[kOwnNameCount] = {};

namespace {

template <int kName, typename Function>
Function* RealOf() {
  return reinterpret_cast<Function*>(own_reals[kName]);
}

// Samples stay where the allocator puts them (BindOwnNames gives the tag up): a block that is freed by size must be in
// the size class that the program asked for.
inline bool IsDue(size_t bytes) { return bytes <= kHotSizeLimit && ChargeHeap(bytes) && HeapEventDue(bytes); }

template <typename Call>
inline void* AllocateBy(const CallerRegisters& caller, size_t bytes, Call call) {
  if (LIKELY(!IsDue(bytes))) return call();
  void* block = call();
  RecordAlloc(caller, block, bytes);
  return block;
}

// The four cases of realloc, as in interpose/heap/malloc.cc.
template <bool kFreesOnFailure = false, typename Call>
inline void* ReallocateBy(const CallerRegisters& caller, void* block, size_t bytes, Call call) {
  const bool due = (bytes != 0 || block == nullptr) && IsDue(bytes);
  const TakenLive old = block != nullptr ? TakeSample(block) : TakenLive{};
  void* moved = call();
  if (moved == nullptr && bytes != 0 && !kFreesOnFailure) {
    PutBackSample(old, block);
    return nullptr;
  }
  if (old.sampled()) RecordFree(old, block, true);
  if (due) RecordAlloc(caller, moved, bytes);
  return moved;
}

enum class Freed {
  kOurs,     // a block from before the allocator was found
  kPlain,    // not a sample
  kSampled,  // a sample, perhaps an early one at a tagged address: not in the size class that the program expects
};
inline Freed RecordOwnFree(void* block) {
  if (UNLIKELY(IsEarly(block))) return Freed::kOurs;
  if (LIKELY(block == nullptr || SurelyNotSampled(block))) return Freed::kPlain;
  if (ExactBegun() && RecordFreeExact(block)) return Freed::kSampled;
  if (!PassesFilter(block)) return Freed::kPlain;
  const TakenLive taken = TakeSample(block);
  if (!taken.sampled()) return Freed::kPlain;
  RecordFree(taken, block);
  return Freed::kSampled;
}

// `more`: the call's arguments after the block. A size, which comes first, is dropped if it may be wrong.
template <int kName, bool kSized, typename First, typename... More>
inline void FreeBy(void* block, First first, More... more) {
  const Freed freed = RecordOwnFree(block);
  if (freed == Freed::kOurs) return;
  if (kSized && freed == Freed::kSampled && own_unsized[kName] != nullptr)
    return reinterpret_cast<void (*)(void*, More...)>(own_unsized[kName])(block, more...);
  RealOf<kName, void(void*, First, More...)>()(block, first, more...);
}

template <int kName>
void* Allocate(size_t bytes) {
  return AllocateBy(HOLDFAST_CALLER(), bytes, [=] { return RealOf<kName, void*(size_t)>()(bytes); });
}
size_t BytesOf(size_t count, size_t each) {
  size_t bytes;
  return __builtin_mul_overflow(count, each, &bytes) ? SIZE_MAX : bytes;  // which fails
}
template <int kName>
void* AllocateMany(size_t count, size_t each) {
  return AllocateBy(HOLDFAST_CALLER(), BytesOf(count, each),
                    [=] { return RealOf<kName, void*(size_t, size_t)>()(count, each); });
}
template <int kName>
void* AllocateWithFlags(size_t bytes, int flags) {
  return AllocateBy(HOLDFAST_CALLER(), bytes, [=] { return RealOf<kName, void*(size_t, int)>()(bytes, flags); });
}
template <int kName>
void* AllocateAligned(size_t bytes, size_t alignment) {
  return AllocateBy(HOLDFAST_CALLER(), bytes, [=] { return RealOf<kName, void*(size_t, size_t)>()(bytes, alignment); });
}
template <int kName>
void* AllocateAlignedTo(size_t alignment, size_t bytes) {
  return AllocateBy(HOLDFAST_CALLER(), bytes, [=] { return RealOf<kName, void*(size_t, size_t)>()(alignment, bytes); });
}
template <int kName>
int AllocateAlignedInto(void** result, size_t alignment, size_t bytes) {
  int error = 0;
  AllocateBy(HOLDFAST_CALLER(), bytes, [&]() -> void* {
    error = RealOf<kName, int(void**, size_t, size_t)>()(result, alignment, bytes);
    return error == 0 ? *result : nullptr;
  });
  return error;
}

template <int kName>
void* AllocateNothrow(size_t bytes, const void* nothrow) {
  return AllocateBy(HOLDFAST_CALLER(), bytes,
                    [=] { return RealOf<kName, void*(size_t, const void*)>()(bytes, nothrow); });
}
template <int kName>
void* AllocateAlignedNothrow(size_t bytes, size_t alignment, const void* nothrow) {
  return AllocateBy(HOLDFAST_CALLER(), bytes,
                    [=] { return RealOf<kName, void*(size_t, size_t, const void*)>()(bytes, alignment, nothrow); });
}
template <int kName>
void* AllocateAlignedAt(size_t bytes, size_t alignment, size_t offset) {
  return AllocateBy(HOLDFAST_CALLER(), bytes,
                    [=] { return RealOf<kName, void*(size_t, size_t, size_t)>()(bytes, alignment, offset); });
}
template <int kName>
void* AllocateManyAligned(size_t count, size_t each, size_t alignment) {
  return AllocateBy(HOLDFAST_CALLER(), BytesOf(count, each),
                    [=] { return RealOf<kName, void*(size_t, size_t, size_t)>()(count, each, alignment); });
}
template <int kName>
char* AllocateCopy(const char* text) {
  return static_cast<char*>(AllocateBy(HOLDFAST_CALLER(), text != nullptr ? strlen(text) + 1 : 0,
                                       [=]() -> void* { return RealOf<kName, char*(const char*)>()(text); }));
}

template <int kName>
void* Reallocate(void* block, size_t bytes) {
  return ReallocateBy(HOLDFAST_CALLER(), block, bytes,
                      [=] { return RealOf<kName, void*(void*, size_t)>()(block, bytes); });
}
template <int kName>
void* ReallocateWithFlags(void* block, size_t bytes, int flags) {
  return ReallocateBy(HOLDFAST_CALLER(), block, bytes,
                      [=] { return RealOf<kName, void*(void*, size_t, int)>()(block, bytes, flags); });
}
template <int kName>
void* ReallocateMany(void* block, size_t count, size_t each) {
  return ReallocateBy(HOLDFAST_CALLER(), block, BytesOf(count, each),
                      [=] { return RealOf<kName, void*(void*, size_t, size_t)>()(block, count, each); });
}
template <int kName>
void* ReallocateAligned(void* block, size_t bytes, size_t alignment) {
  return ReallocateBy(HOLDFAST_CALLER(), block, bytes,
                      [=] { return RealOf<kName, void*(void*, size_t, size_t)>()(block, bytes, alignment); });
}
// If there is no room the old block is freed.
template <int kName>
void* ReallocateOrFree(void* block, size_t bytes) {
  return ReallocateBy<true>(HOLDFAST_CALLER(), block, bytes,
                            [=] { return RealOf<kName, void*(void*, size_t)>()(block, bytes); });
}
// The block stays in place with another size: counted as freed and allocated anew if it reached the requested size.
template <int kName>
size_t ResizeInPlace(void* block, size_t bytes, size_t extra, int flags) {
  const CallerRegisters caller = HOLDFAST_CALLER();
  const TakenLive old = TakeSample(block);
  const size_t is = RealOf<kName, size_t(void*, size_t, size_t, int)>()(block, bytes, extra, flags);
  if (is < bytes) {
    PutBackSample(old, block);
    return is;
  }
  if (old.sampled()) RecordFree(old, block, true);
  if (IsDue(bytes)) RecordAlloc(caller, block, bytes);
  return is;
}

template <int kName>
void Free(void* block) {
  if (RecordOwnFree(block) != Freed::kOurs) RealOf<kName, void(void*)>()(block);
}
template <int kName>
void FreeWithFlags(void* block, int flags) {
  FreeBy<kName, false>(block, flags);
}
template <int kName>
void FreeNothrow(void* block, const void* nothrow) {
  FreeBy<kName, false>(block, nothrow);
}
template <int kName>
void FreeAlignedNothrow(void* block, size_t alignment, const void* nothrow) {
  FreeBy<kName, false>(block, alignment, nothrow);
}
template <int kName>
void FreeAligned(void* block, size_t alignment) {
  FreeBy<kName, false>(block, alignment);
}
template <int kName>
void FreeSized(void* block, size_t bytes) {
  FreeBy<kName, true>(block, bytes);
}
template <int kName>
void FreeSizedAligned(void* block, size_t bytes, size_t alignment) {
  FreeBy<kName, true>(block, bytes, alignment);
}
template <int kName>
void FreeSizedWithFlags(void* block, size_t bytes, int flags) {
  FreeBy<kName, true>(block, bytes, flags);
}

}  // namespace

void* const own_wrappers[kOwnNameCount] = {
#define HOLDFAST_NAME(name, wrapper) reinterpret_cast<void*>(wrapper<kOwn_##name>),
#include "sampler/entries/allocator_names.inc"
};

}  // namespace holdfast
