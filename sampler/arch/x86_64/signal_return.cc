// The code to which a signal handler returns: see sampler/arch/processor.h. Debuggers and unwinders recognise the
// instructions as those of a signal frame, which libc's own consist of. The tables say the same: each register is in
// the ucontext at rsp. A walk looks one byte before a return address, so the tables begin with a nop.
asm(R"(
  .text
  .macro holdfast_saved register, offset
  .cfi_escape 0x10, \register, 3, 0x77, (\offset & 0x7f) | 0x80, \offset >> 7
  .endm
  .hidden HoldfastSignalReturn
  .globl HoldfastSignalReturn
  .type HoldfastSignalReturn, @function
  .cfi_startproc
  .cfi_signal_frame
  .cfi_escape 0x0f, 4, 0x77, 0xa0, 0x01, 0x06
  holdfast_saved 8, 40
  holdfast_saved 9, 48
  holdfast_saved 10, 56
  holdfast_saved 11, 64
  holdfast_saved 12, 72
  holdfast_saved 13, 80
  holdfast_saved 14, 88
  holdfast_saved 15, 96
  holdfast_saved 5, 104
  holdfast_saved 4, 112
  holdfast_saved 6, 120
  holdfast_saved 3, 128
  holdfast_saved 1, 136
  holdfast_saved 0, 144
  holdfast_saved 2, 152
  holdfast_saved 7, 160
  holdfast_saved 16, 168
  nop
HoldfastSignalReturn:
  mov $15, %rax
  syscall
  .cfi_endproc
  .size HoldfastSignalReturn, .-HoldfastSignalReturn
)");
