// HoldfastCallMuted, for arm64: see interpose/arch/entry_points.h. `hint #34` is `bti c`: where the processor checks the
// targets of indirect branches, it allows calls.
asm(R"(
  .text
  .hidden HoldfastCallMuted
  .globl HoldfastCallMuted
  .type HoldfastCallMuted, %function
HoldfastCallMuted:
  .cfi_startproc
  .cfi_personality 0x1b, HoldfastMutedPersonality
  hint #34
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  mov x9, x0
  mov x0, x1
  mov x1, x2
  mov x2, x3
  blr x9
  ldp x29, x30, [sp], #16
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  ret
  .cfi_endproc
  .size HoldfastCallMuted, .-HoldfastCallMuted
)");
