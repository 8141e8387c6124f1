// The entry points that throw, for arm64: see interpose/arch/entry_points.h. The caller's arguments are restored before the
// jump, which goes through x16: `bti c` accepts it like a call.
asm(R"(
  .macro HOLDFAST_PASS_ON name
  .text
  .globl \name
  .type \name, %function
\name:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-48]!
  .cfi_def_cfa_offset 48
  .cfi_offset x29, -48
  .cfi_offset x30, -40
  stp x0, x1, [sp, #16]
  str x2, [sp, #32]
  .endm

  .macro HOLDFAST_JUMP name
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldr x2, [sp, #32]
  ldp x29, x30, [sp], #48
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size \name, .-\name
  .endm

  HOLDFAST_PASS_ON __cxa_throw
  mov x2, x30
  add x3, sp, #48
  mov x4, x29
  mov x29, sp
  bl HoldfastThrown
  HOLDFAST_JUMP __cxa_throw

  HOLDFAST_PASS_ON __cxa_rethrow
  mov x0, x30
  add x1, sp, #48
  mov x2, x29
  mov x29, sp
  bl HoldfastRethrown
  HOLDFAST_JUMP __cxa_rethrow

  .macro HOLDFAST_UNWIND name, recorder
  HOLDFAST_PASS_ON \name
  mov x1, x30
  add x2, sp, #48
  mov x3, x29
  mov x29, sp
  bl \recorder
  HOLDFAST_JUMP \name
  .endm

  HOLDFAST_UNWIND _Unwind_RaiseException, HoldfastRaised
  HOLDFAST_UNWIND _Unwind_Resume_or_Rethrow, HoldfastResumed
)");
