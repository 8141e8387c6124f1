// The hot paths of new and new[], for x86-64: see interpose/arch/entry_points.h. Three instructions and a register less
// than the compiler's. `allocate` is called with this frame below it:
//     rsp → return address into new │ bytes │ return address into the program │ the program's frame
#include "interpose/arch/entry_points.h"

asm(R"(
  .macro HOLDFAST_NEW name, allocate, due, failed
  .text
  .p2align 5
  .globl \name, holdfast_own\name
  .hidden holdfast_own\name
  .type \name, @function
  .type holdfast_own\name, @function
\name:
holdfast_own\name:
  .cfi_startproc
  cmpq $1, %rdi
  movq holdfast_hot_new(%rip), %rax
  sbbq %rdi, %fs:(%rax)
  jbe \due
  pushq %rdi
  .cfi_adjust_cfa_offset 8
  call *holdfast_hot_new+\allocate(%rip)
  popq %rdi
  .cfi_adjust_cfa_offset -8
  testq %rax, %rax
  je \failed
  ret
  .cfi_endproc
  .size \name, .-\name
  .size holdfast_own\name, .-holdfast_own\name
  .endm

  .macro HOLDFAST_CALL_ELSEWHERE name, target
  .globl \name
  .hidden \name
  .type \name, @function
\name:
  .cfi_startproc
  movq 16(%rsp), %rsi
  leaq 24(%rsp), %rdx
  movq %rbp, %rcx
  jmp \target
  .cfi_endproc
  .size \name, .-\name
  .endm

  HOLDFAST_NEW _Znwm, 8, HoldfastNewDue, HoldfastNewFailed
  HOLDFAST_NEW _Znam, 16, HoldfastNewArrayDue, HoldfastNewArrayFailed
  HOLDFAST_CALL_ELSEWHERE HoldfastCallNewElsewhere, HoldfastNewElsewhere
  HOLDFAST_CALL_ELSEWHERE HoldfastCallNewArrayElsewhere, HoldfastNewArrayElsewhere
)");
static_assert(offsetof(holdfast::HotNew, allocate) == 8 && offsetof(holdfast::HotNew, allocate_array) == 16);
