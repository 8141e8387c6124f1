// First step of a wrapper's slow path: if nothing is recorded, or too little stack is left
// (sampler/capture/little_stack.h), it jumps straight to the real function. Out of line, and without a frame of its own.
#ifndef HOLDFAST_INTERPOSE_LOCKS_STRAIGHT_ON_H_
#define HOLDFAST_INTERPOSE_LOCKS_STRAIGHT_ON_H_

#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "sampler/capture/little_stack.h"

namespace holdfast {

// Calls `kSlow`, a function that is not inlined, unless too little stack is left: then the real one, a member of Real.
template <auto kSlow, auto kReal, typename... Arguments>
HOLDFAST_COLD auto UnlessLittleStack(Arguments... arguments) {
  if (LIKELY(hot_size_limit != 0) && (UNLIKELY(passes_through) || UNLIKELY(LittleStackForWait())))
    return (real.*kReal)(arguments...);
  return kSlow(arguments...);
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_LOCKS_STRAIGHT_ON_H_
