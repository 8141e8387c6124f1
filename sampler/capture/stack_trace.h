// Stack capture. The only header of the unwinder that the rest of the sampler includes.
//
// Walks by a process-wide, lock-free cache of unwind rows, one for each code address; a row that is missing is made
// from the module's .eh_frame. docs/why.md, "Our own unwinder", has the measurements.
//
// Any thread, also in a signal handler and on a foreign, tiny or coroutine stack. Waits for no lock, allocates nothing,
// calls no dl_iterate_phdr, dladdr, dlsym, dlopen, preserves errno. Every read of a stack is from memory that was found
// readable. Code that cannot be walked ends the trace, which is a valid result.
#ifndef HOLDFAST_SAMPLER_CAPTURE_STACK_TRACE_H_
#define HOLDFAST_SAMPLER_CAPTURE_STACK_TRACE_H_

#include "sampler/arch/processor.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

class LastWalk;

// Fills `trace`. Records modules in the current table when it first meets them (CurrentTable() must not be null).
void CaptureStack(const CallerRegisters& caller, StackBounds* bounds, StackTrace* trace);
// The same, walked only up to where it joins the last walk (last_walk.h). True: `last` is this walk, and `trace` is not
// to be used. False: `last` is unchanged.
bool CaptureStack(const CallerRegisters& caller, StackBounds* bounds, StackTrace* trace, LastWalk* last);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_STACK_TRACE_H_
