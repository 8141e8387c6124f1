// Calls a function on another stack: see sampler/arch/call_on_stack.h. Debuggers find the caller by the frame pointer.
asm(R"(
  .text
  .hidden HoldfastCallOnStack
  .globl HoldfastCallOnStack
  .type HoldfastCallOnStack, %function
HoldfastCallOnStack:
  .cfi_startproc
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  .cfi_def_cfa_register x29
  mov x9, x0
  mov x0, x1
  mov sp, x2
  blr x9
  mov sp, x29
  .cfi_def_cfa sp, 16
  ldp x29, x30, [sp], #16
  .cfi_def_cfa_offset 0
  .cfi_restore x29
  .cfi_restore x30
  ret
  .cfi_endproc
  .size HoldfastCallOnStack, .-HoldfastCallOnStack
)");
