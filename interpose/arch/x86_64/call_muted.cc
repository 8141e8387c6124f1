// HoldfastCallMuted, for x86-64: see interpose/arch/entry_points.h.
asm(R"(
  .text
  .hidden HoldfastCallMuted
  .globl HoldfastCallMuted
  .type HoldfastCallMuted, @function
HoldfastCallMuted:
  .cfi_startproc
  .cfi_personality 0x1b, HoldfastMutedPersonality
  sub $8, %rsp
  .cfi_adjust_cfa_offset 8
  mov %rdi, %rax
  mov %rsi, %rdi
  mov %rdx, %rsi
  mov %rcx, %rdx
  call *%rax
  add $8, %rsp
  .cfi_adjust_cfa_offset -8
  ret
  .cfi_endproc
  .size HoldfastCallMuted, .-HoldfastCallMuted
)");
