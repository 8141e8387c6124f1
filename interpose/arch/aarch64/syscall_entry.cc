// The entry point `syscall`, for arm64: see interpose/arch/entry_points.h. By number: futex, seccomp, futex_waitv,
// futex_wake, futex_wait. The jump goes through x16, which `bti c` accepts like a call.
asm(R"(
  .text
  .globl syscall
  .type syscall, %function
syscall:
  .cfi_startproc
  hint #34
  cmp x0, #98
  b.eq HoldfastFutex
  cmp x0, #277
  b.eq HoldfastSeccomp
  cmp x0, #449
  b.eq HoldfastFutexWaitv
  cmp x0, #454
  b.eq HoldfastFutex2Wake
  cmp x0, #455
  b.eq HoldfastFutex2Wait
  stp x29, x30, [sp, #-80]!
  .cfi_def_cfa_offset 80
  .cfi_offset x29, -80
  .cfi_offset x30, -72
  mov x29, sp
  stp x0, x1, [sp, #16]
  stp x2, x3, [sp, #32]
  stp x4, x5, [sp, #48]
  stp x6, x7, [sp, #64]
  bl HoldfastRealSyscall
  mov x16, x0
  ldp x0, x1, [sp, #16]
  ldp x2, x3, [sp, #32]
  ldp x4, x5, [sp, #48]
  ldp x6, x7, [sp, #64]
  ldp x29, x30, [sp], #80
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  br x16
  .cfi_endproc
  .size syscall, .-syscall
)");
