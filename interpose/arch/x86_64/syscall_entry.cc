// The entry point `syscall`, for x86-64: see interpose/arch/entry_points.h. By number: futex, seccomp, futex_waitv, futex_wake,
// futex_wait.
asm(R"(
  .text
  .globl syscall
  .type syscall, @function
syscall:
  .cfi_startproc
  cmp $202, %rdi
  je HoldfastFutex
  cmp $317, %rdi
  je HoldfastSeccomp
  cmp $449, %rdi
  je HoldfastFutexWaitv
  cmp $454, %rdi
  je HoldfastFutex2Wake
  cmp $455, %rdi
  je HoldfastFutex2Wait
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  sub $8, %rsp
  .cfi_adjust_cfa_offset 56
  call HoldfastRealSyscall
  add $8, %rsp
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  .cfi_adjust_cfa_offset -56
  jmp *%rax
  .cfi_endproc
  .size syscall, .-syscall
)");
