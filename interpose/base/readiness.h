// Whether the shim is ready: relocated, with the real functions found. The first call of any wrapper makes it so
// (interpose/process/start.cc).
#ifndef HOLDFAST_INTERPOSE_BASE_READINESS_H_
#define HOLDFAST_INTERPOSE_BASE_READINESS_H_

#include <stddef.h>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"
#include "sampler/hot_path/this_thread.h"

namespace holdfast {

// Whether the program's own look-up of malloc and its kin finds us. It does not if the executable defines them, or if
// an allocator was preloaded before us: then we see only functions that they lack, and must not use the next
// allocator's heap.
extern HOLDFAST_HIDDEN bool owns_malloc;
// The program's own free, where that is another allocator's; null: ours. For the names that only we export.
extern HOLDFAST_HIDDEN void (*others_free)(void*);

// Whether another library's clock_gettime comes before libc's (libfaketime). The deadlines of timed waits are then in
// its own time, and we split no wait by a deadline.
extern HOLDFAST_HIDDEN bool clock_is_interposed;

// Whether `holdfast attach` loaded the library into the running program. Nothing is recorded until holdfast_attach_v1 is
// called, and the real functions are those of the whole program, because no object comes after the library.
extern HOLDFAST_HIDDEN bool loaded_late;

// Whether the library's constructor has begun: before, it may not be relocated.
extern HOLDFAST_HIDDEN bool is_constructed;

// Whether this process records nothing, from start to end: every wrapper calls the real function directly. Race
// detectors (helgrind, drd) report even a read of a lock's words.
extern HOLDFAST_HIDDEN bool passes_through;

// 0 until the shim is ready; then the largest size that is charged. Larger sizes fail in the real malloc (47 bits of
// address space).
extern HOLDFAST_HIDDEN size_t hot_size_limit;
inline constexpr size_t kHotSizeLimit = size_t{1} << 47;

// Whether the shim is relocated and has found the real functions; starts that on the first call. False: too early (an
// ifunc resolver before our relocation, or dlsym's own allocations): use the early arena, touch nothing else.
bool ReadySlow();
inline bool Ready() { return LIKELY(hot_size_limit != 0) || ReadySlow(); }

// For a slow path that finds the shim not ready after its hot path has charged kUnusedWord. True: the shim is ready
// now, and the thread itself is charged; its countdown begins at 0 and so has run out.
inline bool ReadyAfterCharge(size_t bytes) {
  ClearUnusedWord();
  return ReadySlow() && ChargeHeap(bytes);
}

// For a slow path after the countdown has run out. False: no allocator can satisfy this size.
inline bool MayBeDue(size_t bytes) {
  if (LIKELY(bytes <= kHotSizeLimit)) return true;
  UndoCharge(bytes);
  return false;
}

// Result of a lock function that is called too early: with one thread, every lock is free.
inline constexpr int kTooEarly = 0;

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_BASE_READINESS_H_
