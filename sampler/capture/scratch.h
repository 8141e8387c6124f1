// Buffers for a stack during its capture: too large for the program's stack, too rarely used to give each thread its
// own.
//
// Any thread, also in a signal handler; lock-free. There are 64; when all are in use at the same moment, 1,024 more are
// mapped. All in use: null, and the sample is counted without its stack.
#ifndef HOLDFAST_SAMPLER_CAPTURE_SCRATCH_H_
#define HOLDFAST_SAMPLER_CAPTURE_SCRATCH_H_

#include "sampler/capture/stack_trace.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

// Takes a buffer for this thread, which may have one at a time. The thread's shard spreads threads over the buffers, so
// that each usually finds its own free and warm.
StackTrace* TakeScratch(ThreadState& thread);
void ReturnScratch(ThreadState& thread);

// For a child of fork: frees the buffers of other threads.
void ResetScratch();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_SCRATCH_H_
