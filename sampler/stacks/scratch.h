// Buffers for a stack that is being captured: too large for the program's stack, too rarely used for every thread to
// have its own.
//
// Any thread, also in a signal handler; lock-free. There are 64; once all of them are taken at the same moment, 1,024 more are
// mapped. All taken: null, and the sample is counted without its stack.
#ifndef HOLDFAST_SAMPLER_STACKS_SCRATCH_H_
#define HOLDFAST_SAMPLER_STACKS_SCRATCH_H_

#include "sampler/hot_path/thread_state.h"
#include "sampler/stacks/stack_trace.h"

namespace holdfast {

// Takes one for this thread, which may have one at a time; its shard spreads threads over the buffers, so that each
// mostly finds its own free and warm.
StackTrace* TakeScratch(ThreadState& thread);
void ReturnScratch(ThreadState& thread);

// In a child of fork: what other threads had taken is free again.
void ResetScratch();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_SCRATCH_H_
