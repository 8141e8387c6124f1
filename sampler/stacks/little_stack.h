// How much of its stack a thread has left, before we use what the program may not have to spare.
//
// Measured (tests/programs/little_stack.c, each call at every 64 bytes, gcc 12, 2026-11-22): with a capture 2.4 KiB at the
// deepest, counted from the program's call; without one 1.0 KiB, the wait for a condition. So:
//
//     kStackForCapture and more    everything
//     less                         the sample is counted without its stack (stack-missing)
//     less than kStackForRecord    the call goes straight on to the real function, by a jump; where it would have been a sample
//                                  or a wait, that is counted (stack-missing)
//
// What lies below a guard page, or below the end that RLIMIT_STACK sets, is not there. Where nothing of this kind bounds a
// stack, as that of a coroutine in the midst of other memory, nobody can tell. Any thread, signal handlers.
#ifndef HOLDFAST_SAMPLER_STACKS_LITTLE_STACK_H_
#define HOLDFAST_SAMPLER_STACKS_LITTLE_STACK_H_

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

inline constexpr uintptr_t kStackForCapture = 4096;
inline constexpr uintptr_t kStackForRecord = 1280;

// Whether fewer than so many bytes are left below the caller, at most one page or so. Where the kernel may not be asked: no.
bool LittleStackLeftSlow(uintptr_t bytes);
HOLDFAST_HOT inline bool LittleStackLeft(uintptr_t bytes) {
  // Mostly the thread has been deeper before.
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  const StackBounds& known = thread_state.stack_bounds;
  // Each bound for itself: a handler may find the first without the second (see StackReader::Remember), which is nothing known.
  return UNLIKELY(here < known.low + bytes) || UNLIKELY(here >= known.high) ? LittleStackLeftSlow(bytes) : false;
}

// For the wrapper of a lock: whether it has to go straight on. Counted.
bool LittleStackForWait();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_LITTLE_STACK_H_
