// Data for the slow path of a redirected function.
#ifndef HOLDFAST_INTERPOSE_ENTRIES_ENTRY_CALLS_H_
#define HOLDFAST_INTERPOSE_ENTRIES_ENTRY_CALLS_H_

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/entries/call_shape.h"

namespace holdfast {

struct RedirectedEntry {
  uintptr_t real = 0;  // its trampoline: the function as it was
  CallShape shape{};
};

// By the number of the site; set before any stub can run.
inline constexpr int kMaxRedirected = 192;
extern HOLDFAST_HIDDEN RedirectedEntry redirected_entries[kMaxRedirected];

// The word that a stub pushes: twice the site's number, + 1 if the size has been charged.
inline constexpr uint64_t kWasCharged = 1;

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_ENTRIES_ENTRY_CALLS_H_
