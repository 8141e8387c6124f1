// Stack capture. The only header that the rest of the sampler sees of unwinding.
//
// Walks by a process-wide, lock-free cache of unwind rows, one for each code address; a row that is missing is made
// from the module's .eh_frame. docs/why.md, "Our own unwinder", has the measurements.
//
// Any thread, also in a signal handler and on a foreign, tiny or coroutine stack. Takes no lock that it could wait for,
// allocates nothing, calls no dl_iterate_phdr, dladdr, dlsym, dlopen, preserves errno. Every read of a stack lies in
// memory that was found readable; what cannot be walked ends the trace, which is a fine answer.
#ifndef HOLDFAST_SAMPLER_STACKS_STACK_TRACE_H_
#define HOLDFAST_SAMPLER_STACKS_STACK_TRACE_H_

#include "sampler/arch/processor.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/tables/stack_table.h"

namespace holdfast {

class LastWalk;

// Fills `trace`. Records modules in the current table as they are first met (table() must not be null).
void CaptureStack(const CallerRegisters& caller, StackBounds* bounds, StackTrace* trace);
// The same, walked only where it is not as the last one was (last_walk.h). True: `last` is this walk, and what is in `trace` is not
// to be used. False: it stays as it was.
bool CaptureStack(const CallerRegisters& caller, StackBounds* bounds, StackTrace* trace, LastWalk* last);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_STACK_TRACE_H_
