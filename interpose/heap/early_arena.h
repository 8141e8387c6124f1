// Memory for calls before the real malloc is known: ifunc resolvers while programs are being relocated, and dlsym
// itself. A few blocks in practice.
//
// Works before the shim is relocated: no GOT, no TLS, system calls only. Blocks are at multiples of kTagAlignment, so
// free's first test always leads them to its slow path, which recognizes them by their address. They are never reused.
// Full (16 MiB): null, never an abort.
#ifndef HOLDFAST_INTERPOSE_HEAP_EARLY_ARENA_H_
#define HOLDFAST_INTERPOSE_HEAP_EARLY_ARENA_H_

#include <stddef.h>
#include <stdint.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Zeroed. `alignment`: a power of two.
void* AllocateEarly(size_t bytes, size_t alignment);

inline constexpr size_t kFirstArenaBytes = 64 << 10;
inline constexpr size_t kArenaBytes = 16 << 20;

struct EarlyArena {
  alignas(4096) char first[kFirstArenaBytes];  // .bss: costs nothing until touched
  char* more;                                  // kArenaBytes, mapped when the first part is full
  size_t used, used_more;
};
extern HOLDFAST_HIDDEN EarlyArena early_arena;

inline bool IsEarly(const void* block) {
  const auto* at = static_cast<const char*>(block);
  return static_cast<size_t>(at - early_arena.first) < kFirstArenaBytes ||
         (early_arena.more != nullptr && static_cast<size_t>(at - early_arena.more) < kArenaBytes);
}

// Requested size of an early block.
inline size_t EarlySize(const void* block) { return static_cast<const size_t*>(block)[-1]; }

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_EARLY_ARENA_H_
