// Whether the shim is ready: relocated, with the real functions found. The first call that reaches it makes it so
// (interpose/start.cc), whichever wrapper that is.
#ifndef HOLDFAST_INTERPOSE_BASE_READINESS_H_
#define HOLDFAST_INTERPOSE_BASE_READINESS_H_

#include <stddef.h>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"
#include "sampler/hot_path/this_thread.h"

namespace holdfast {

// Whether the program's own look-up of malloc and its kin arrives at us. It does not where the executable defines them,
// or an allocator was preloaded before us: then we see what they do not define, and must not bring the next one's heap
// into play.
extern HOLDFAST_HIDDEN bool owns_malloc;

// Whether somebody else's clock_gettime comes before libc's (libfaketime): the deadlines of timed waits are then in a time of its
// own, and no wait is cut in parts by a deadline of ours.
extern HOLDFAST_HIDDEN bool clock_is_interposed;

// Whether nothing is recorded in this process, from the start to the end: every wrapper goes straight to the real function. Race
// detectors (helgrind, drd) report even a look at a lock's words.
extern HOLDFAST_HIDDEN bool passes_through;

// 0 until the shim is ready; then the largest size that is charged. Above it the real malloc fails (47 bits of address
// space).
extern HOLDFAST_HIDDEN size_t hot_size_limit;
inline constexpr size_t kHotSizeLimit = size_t{1} << 47;

// Whether the shim is relocated and has found the real functions; begins doing so on the first call. False: too early
// (an ifunc resolver before our relocation, or dlsym's own allocations): use the early arena, touch nothing else.
bool ReadySlow();
inline bool Ready() { return LIKELY(hot_size_limit != 0) || ReadySlow(); }

// For a slow path that finds the shim not ready after its hot path has charged kUnusedWord. True: the shim is ready now,
// and the thread itself is charged, whose countdown begins at 0 and so has run out.
inline bool ReadyAfterCharge(size_t bytes) {
  ClearUnusedWord();
  return ReadySlow() && ChargeHeap(bytes);
}

// For a slow path whose hot path has found the countdown to have run out. False: the size is one that no allocator has.
inline bool MayBeDue(size_t bytes) {
  if (LIKELY(bytes <= kHotSizeLimit)) return true;
  UndoCharge(bytes);
  return false;
}

// What the caller of a lock function that comes too early gets: with one thread, every lock is free.
inline constexpr int kTooEarly = 0;

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_READINESS_H_
