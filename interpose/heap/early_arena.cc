#include "interpose/heap/early_arena.h"

#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/sampled_filter.h"

namespace holdfast {
namespace {

// Allocates a block in an arena of `size` bytes at `start`, after the first `used` bytes, and stores its size in front of it.
// Returns null if the block does not fit.
char* Carve(char* start, size_t size, size_t* used, size_t bytes, size_t alignment) {
  const auto base = reinterpret_cast<uintptr_t>(start);
  const uintptr_t at = (base + *used + sizeof(size_t) + alignment - 1) & ~(alignment - 1);
  if (bytes > size || at - base > size - bytes) return nullptr;
  *used = at - base + bytes;
  reinterpret_cast<size_t*>(at)[-1] = bytes;
  return reinterpret_cast<char*>(at);
}

}  // namespace

constinit EarlyArena early_arena{};

void* AllocateEarly(size_t bytes, size_t alignment) {
  if (alignment < kTagAlignment) alignment = kTagAlignment;
  if (char* block = Carve(early_arena.first, kFirstArenaBytes, &early_arena.used, bytes, alignment)) return block;
  if (early_arena.more == nullptr) {
    early_arena.more = static_cast<char*>(MapAnonymous(kArenaBytes, 0x4000 /*MAP_NORESERVE*/));
    if (early_arena.more == nullptr) return nullptr;
  }
  return Carve(early_arena.more, kArenaBytes, &early_arena.used_more, bytes, alignment);
}

}  // namespace holdfast
