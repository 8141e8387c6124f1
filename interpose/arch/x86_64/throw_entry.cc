// The entry points that throw, for x86-64: see interpose/arch/entry_points.h. The caller's arguments are restored
// before the jump.
asm(R"(
  .text
  .globl __cxa_throw
  .type __cxa_throw, @function
__cxa_throw:
  .cfi_startproc
  push %rdi
  .cfi_adjust_cfa_offset 8
  push %rsi
  .cfi_adjust_cfa_offset 8
  push %rdx
  .cfi_adjust_cfa_offset 8
  mov 24(%rsp), %rdx
  lea 32(%rsp), %rcx
  mov %rbp, %r8
  call HoldfastThrown
  pop %rdx
  .cfi_adjust_cfa_offset -8
  pop %rsi
  .cfi_adjust_cfa_offset -8
  pop %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
  .size __cxa_throw, .-__cxa_throw

  .globl __cxa_rethrow
  .type __cxa_rethrow, @function
__cxa_rethrow:
  .cfi_startproc
  mov (%rsp), %rdi
  lea 8(%rsp), %rsi
  mov %rbp, %rdx
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  call HoldfastRethrown
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
  .size __cxa_rethrow, .-__cxa_rethrow

  .macro HOLDFAST_UNWIND name, recorder
  .globl \name
  .type \name, @function
\name:
  .cfi_startproc
  push %rdi
  .cfi_adjust_cfa_offset 8
  mov 8(%rsp), %rsi
  lea 16(%rsp), %rdx
  mov %rbp, %rcx
  call \recorder
  pop %rdi
  .cfi_adjust_cfa_offset -8
  jmp *%rax
  .cfi_endproc
  .size \name, .-\name
  .endm

  HOLDFAST_UNWIND _Unwind_RaiseException, HoldfastRaised
  HOLDFAST_UNWIND _Unwind_Resume_or_Rethrow, HoldfastResumed
)");
