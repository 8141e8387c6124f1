// The list of names, as numbers, and their wrappers. (own_names.cc binds them, wrappers.cc has the functions.)
#ifndef HOLDFAST_INTERPOSE_HEAP_WRAPPERS_H_
#define HOLDFAST_INTERPOSE_HEAP_WRAPPERS_H_

#include "sampler/contract/attributes.h"

namespace holdfast {

enum OwnName : int {
#define HOLDFAST_NAME(name, wrapper) kOwn_##name,
#include "sampler/entries/allocator_names.inc"
  kOwnNameCount
};

// Arrays of characters, not pointers: the dynamic linker would have to relocate each pointer at the start of every
// program.
inline constexpr char kOwnNameTexts[kOwnNameCount][48] = {
#define HOLDFAST_NAME(name, wrapper) #name,
#include "sampler/entries/allocator_names.inc"
};

// The allocator's own functions; set before any entry leads to a wrapper.
extern HOLDFAST_HIDDEN void* own_reals[kOwnNameCount];
// For functions that free by size: the one without a size.
extern HOLDFAST_HIDDEN void* own_unsized[kOwnNameCount];
// Ours.
extern HOLDFAST_HIDDEN void* const own_wrappers[kOwnNameCount];

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_HEAP_WRAPPERS_H_
