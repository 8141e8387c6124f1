// The code to which a signal handler returns: see sampler/arch/processor.h. Unwinders know it by its instructions,
// as the kernel's own.
asm(R"(
  .text
  .hidden HoldfastSignalReturn
  .globl HoldfastSignalReturn
  .type HoldfastSignalReturn, %function
HoldfastSignalReturn:
  mov x8, #139
  svc #0
  .size HoldfastSignalReturn, .-HoldfastSignalReturn
)");
