// How free recognizes a large sample when glibc is below: by the size that glibc keeps in front of each block.
//
// A tagged address (sampler/hot_path/sampled_filter.h) costs memory. glibc's memalign cuts it out of a hole that is 1
// KiB larger, so the hole that its block leaves is too small for the next one. For small blocks that is negligible,
// because one in some thousand is a sample. But nearly all blocks of 1 MiB are samples, and a program that replaces
// them at random kept nine times what it held. So a large sample stays where malloc has put it, as in the bare program,
// and free reads the word before the block:
//
//     … │ size of the chunk, flags in bits 0 to 2 │ block …            10 00 00 │ 00 00 00 00 00 10 10 01 │ ^ 0x5555557592b0
//
// free reads that word anyway, a moment later. It takes three more instructions in free and delete, four in realloc:
// only from the first such block on, and not for just a few (MayMove). Then for good, because such blocks may live
// arbitrarily long.
#ifndef HOLDFAST_INTERPOSE_HEAP_LARGE_SAMPLES_H_
#define HOLDFAST_INTERPOSE_HEAP_LARGE_SAMPLES_H_

#include <stddef.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Smallest such block. Smaller samples at tagged addresses take up to 3.5 % more memory at the default interval (blocks
// of 1 to 4 KiB; 8 KiB would take 5 %, 16 KiB 9 %).
inline constexpr size_t kLargeSample = 4096;

// The functions for a block at an untagged address: the real ones, or those below once large samples may be anywhere.
// Written at the start and once more, by the thread that returns the first such block; a thread that frees that block
// got its address from there. Not atomic: the compiler would need one more instruction.
struct Untagged {
  void (*free)(void*);
  void* (*realloc)(void*, size_t);
  void (*libc_free)(void*);  // for calls of __libc_free and __libc_realloc
  void* (*libc_realloc)(void*, size_t);
};
extern HOLDFAST_HIDDEN Untagged untagged;

// Whether the allocator below is glibc's. Set at the start.
extern HOLDFAST_HIDDEN bool sizes_stand_before_blocks;

inline bool MayBeKnownBySize(size_t bytes) { return bytes >= kLargeSample && sizes_stand_before_blocks; }

// Whether a sample that the real allocator has put at an untagged address stays there, known by its size. Only if it
// MayBeKnownBySize. False: move it.
HOLDFAST_HIDDEN bool StaysUntagged(const void* block, size_t bytes);

// Call when a sample was put at a tagged address: with enough of these for each large one, large ones may be moved,
// too.
HOLDFAST_HIDDEN void EarnMove();

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_LARGE_SAMPLES_H_
