// How free knows a large sample where glibc is below: by the size that glibc keeps in front of each block.
//
// A tagged address (sampler/hot_path/sampled_filter.h) costs memory. glibc's memalign cuts it out of a hole that is 1 KiB larger, so the
// hole that its block leaves is too small for the next one. Of small blocks that is nothing, as one in some thousand is a
// sample; but of blocks of 1 MiB nearly all are, and a program that replaces them at random kept nine times what it held. So
// a large sample stays where malloc has put it, just as in the bare program, and free looks at the word before the block:
//
//     … │ size of the chunk, flags in bits 0 to 2 │ block …            10 00 00 │ 00 00 00 00 00 10 10 01 │ ^ 0x5555557592b0
//
// free reads that word anyway, a moment later. Three instructions more in free and delete, four in realloc: only from the
// first such block on, and not for the sake of a few (MayMove). For good then, as such blocks may live as long as they like.
#ifndef HOLDFAST_INTERPOSE_HEAP_LARGE_SAMPLES_H_
#define HOLDFAST_INTERPOSE_HEAP_LARGE_SAMPLES_H_

#include <stddef.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

// From this size on. Smaller samples at tagged addresses take up to 3.5 % more memory at the default interval (blocks of 1 to
// 4 KiB; of 8 KiB 5 %, of 16 KiB 9 %).
inline constexpr size_t kLargeSample = 4096;

// Where a block goes that does not lie where samples lie: to the real functions, or once large samples lie anywhere, to those
// below. Written at the start and once more, by whoever hands out the first such block; a thread that frees that block
// has got its address from there. Not atomic, for which the compiler would take one instruction more.
struct Untagged {
  void (*free)(void*);
  void* (*realloc)(void*, size_t);
  void (*libc_free)(void*);  // for calls of __libc_free and __libc_realloc
  void* (*libc_realloc)(void*, size_t);
};
extern HOLDFAST_HIDDEN Untagged untagged;

// Whether the allocator below is glibc's. From the start.
extern HOLDFAST_HIDDEN bool sizes_stand_before_blocks;

inline bool MayBeKnownBySize(size_t bytes) { return bytes >= kLargeSample && sizes_stand_before_blocks; }

// Whether a sample that the real allocator has put at an untagged address is to stay there, known by its size. Only if it
// MayBeKnownBySize. False: move it.
HOLDFAST_HIDDEN bool StaysUntagged(const void* block, size_t bytes);

// A sample was put at a tagged address: with enough of these for each large one, the large ones may be moved, too.
HOLDFAST_HIDDEN void EarnMove();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_LARGE_SAMPLES_H_
