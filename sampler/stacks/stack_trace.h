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

#include <cstdint>

#include "sampler/contract/layout.h"

namespace holdfast {

// Where a walk begins: the registers as they will be in the caller once the current function has returned to it.
struct CallerRegisters {
  uintptr_t pc;
  uintptr_t sp;
  uintptr_t bp;
};

// The registers of the caller of the function in which this is written. That function must not be inlined; the macro
// makes it keep a frame pointer.
#define HOLDFAST_CALLER()                                                                \
  (::holdfast::CallerRegisters{reinterpret_cast<uintptr_t>(__builtin_return_address(0)), \
                               reinterpret_cast<uintptr_t>(__builtin_dwarf_cfa()),       \
                               *static_cast<const uintptr_t*>(__builtin_frame_address(0))})

// What is known to be readable of this thread's stack: lives in the thread's state, zero at first.
struct StackBounds {
  uintptr_t low;
  uintptr_t high;
};

struct StackTrace {
  uint16_t depth;
  bool truncated;  // outer frames are missing
  // Leaf first: frames[0] is the caller. Return addresses: the instruction that was under way ends at or before it. For
  // code that a signal interrupted it is the interrupted address + 1, so that "− 1" is right for every frame.
  TaggedPc frames[kMaxDepth];
};

// Fills `trace`. Records modules in the current table as they are first met (table() must not be null).
void CaptureStack(const CallerRegisters& caller, StackBounds* bounds, StackTrace* trace);

// The table is a new one (fork): forget all rows. That is all that a child of fork needs: nothing here can be left locked by
// another thread of the parent.
void ForgetUnwindRows();

// After a dlclose: the rows of modules that were not loaded with the program.
void ForgetUnloadableRows();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_STACKS_STACK_TRACE_H_
