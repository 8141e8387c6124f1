// The list of names, as numbers, and where each leads. (own_names.cc binds them, wrappers.cc has the functions.)
#ifndef HOLDFAST_INTERPOSE_OWN_NAMES_WRAPPERS_H_
#define HOLDFAST_INTERPOSE_OWN_NAMES_WRAPPERS_H_

#include "sampler/contract/attributes.h"

namespace holdfast {

enum OwnName : int {
#define HOLDFAST_NAME(name, wrapper) kOwn_##name,
#include "interpose/own_names/own_names.inc"
  kOwnNames
};

// As they are, not pointers to them: each pointer is one that the dynamic linker has to relocate at the start of every program.
inline constexpr char kOwnNameTexts[kOwnNames][48] = {
#define HOLDFAST_NAME(name, wrapper) #name,
#include "interpose/own_names/own_names.inc"
};

// The allocator's own; set before any entry leads to a wrapper.
extern HOLDFAST_HIDDEN void* own_reals[kOwnNames];
// Of what frees by size: what does not.
extern HOLDFAST_HIDDEN void* own_unsized[kOwnNames];
// Ours.
extern HOLDFAST_HIDDEN void* const own_wrappers[kOwnNames];

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_OWN_NAMES_WRAPPERS_H_
