// How much stack a thread has left, checked before we use stack that the program may not have to spare.
//
// Measured (tests/programs/little_stack.c, each call at every 64 bytes, gcc 12, 2026-11-22), from the program's call:
// 2.4 KiB at most with a capture, 1.0 KiB without one (the wait for a condition). So:
//
//     kStackForCapture and more    everything
//     less                         the sample is counted without its stack (stack-missing)
//     less than kStackForRecord    the wrapper jumps straight to the real function; a sample or wait that is skipped
//                                  is counted (stack-missing)
//
// Memory below a guard page, or below the end set by RLIMIT_STACK, is not available. The end of an unbounded stack,
// such as a coroutine's in the middle of other memory, cannot be known. Any thread, signal handlers.
#ifndef HOLDFAST_SAMPLER_CAPTURE_LITTLE_STACK_H_
#define HOLDFAST_SAMPLER_CAPTURE_LITTLE_STACK_H_

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

inline constexpr uintptr_t kStackForCapture = 4096;
inline constexpr uintptr_t kStackForRecord = 1280;

// Whether fewer than `bytes` are left below the caller (at most about one page). False if the kernel may not be asked.
bool LittleStackLeftSlow(uintptr_t bytes);
HOLDFAST_HOT inline bool LittleStackLeft(uintptr_t bytes) {
  // Usually the thread has been deeper before.
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const StackBounds& known = thread_state.stack_bounds;
  // Each bound by itself: a handler may find the first without the second (see StackReader::Remember), which means that
  // nothing is known.
  return UNLIKELY(here < known.low + bytes) || UNLIKELY(here >= known.high) ? LittleStackLeftSlow(bytes) : false;
}

// For a lock's wrapper: whether it must call the real function without recording. Counted.
bool LittleStackForWait();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_LITTLE_STACK_H_
