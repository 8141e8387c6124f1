// Code that the library has written beside the executable: the stubs of redirected functions (interpose/entries). No module
// has this code, so it has no unwind tables. Each piece of it belongs to an instruction of the executable: the registers are
// as before that instruction, but the stack pointer may be lower:
//
//     stub:    cmp $1,%rdi …             as before the instruction that the jump to the stub replaces
//              push %rax; mov %edi,%eax  the second one: the same, with 8 bytes more on the stack
//
// A signal may interrupt it anywhere. Calls leave it only by jumps, so no return address leads into it.
//
// SetAddedCode: before any thread runs such code. The rest: any thread, signal handlers.
#ifndef HOLDFAST_SAMPLER_CAPTURE_ADDED_CODE_H_
#define HOLDFAST_SAMPLER_CAPTURE_ADDED_CODE_H_

#include <cstddef>
#include <cstdint>

#include "sampler/arch/processor.h"

namespace holdfast {

struct AddedPiece {
  uint32_t start;  // from the code's first byte; up to the next piece's
  uint32_t lower;  // bytes that the stack pointer is lower by
  uintptr_t instruction;
};

// `pieces`: sorted, and never freed.
void SetAddedCode(uintptr_t start, size_t bytes, const AddedPiece* pieces, uint32_t count);

// Registers of code that a signal has interrupted, with a pc of 1 more (CaptureStack). If the code is added, they become
// those at its instruction of the executable.
void LeaveAddedCode(CallerRegisters* interrupted);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_ADDED_CODE_H_
