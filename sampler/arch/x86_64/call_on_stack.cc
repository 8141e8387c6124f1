// Calls a function on another stack: see sampler/arch/call_on_stack.h. Debuggers find the caller by the frame pointer.
asm(R"(
  .text
  .hidden HoldfastCallOnStack
  .globl HoldfastCallOnStack
  .type HoldfastCallOnStack, @function
HoldfastCallOnStack:
  .cfi_startproc
  push %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  mov %rsp, %rbp
  .cfi_def_cfa_register %rbp
  mov %rdx, %rsp
  mov %rdi, %rax
  mov %rsi, %rdi
  call *%rax
  mov %rbp, %rsp
  pop %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size HoldfastCallOnStack, .-HoldfastCallOnStack
)");
