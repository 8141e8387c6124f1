#include "interpose/arch/entry_slow.h"

#include <cpuid.h>

#include <algorithm>
#include <cstddef>

extern "C" {
constinit holdfast::EntrySave holdfast_entry_save = {512, 0, 0};
}

namespace holdfast {

void ChooseEntrySave() {
  uint32_t a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return;
  uint32_t low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  // x87, SSE, AVX; the three parts of AVX-512. Code that a call may run changes no others.
  const uint32_t parts = low & 0xe7;
  uint64_t bytes = 576;
  for (uint32_t part = 2; part < 8; ++part) {
    if ((parts >> part & 1) == 0) continue;
    __cpuid_count(0xd, part, a, b, c, d);
    bytes = std::max<uint64_t>(bytes, uint64_t{a} + b);
  }
  __cpuid_count(0xd, 1, a, b, c, d);
  holdfast_entry_save = {(bytes + 63) & ~uint64_t{63}, parts, (a & 2) != 0};
}

static_assert(offsetof(EntrySave, parts) == 8 && offsetof(EntrySave, is_compact) == 12);
static_assert(sizeof(EntryRegisters) == 96 && offsetof(EntryRegisters, rbp) == 72);

}  // namespace holdfast

asm(R"(
  .text
  .p2align 4
  .globl HoldfastEntrySlow
  .hidden HoldfastEntrySlow
  .type HoldfastEntrySlow, @function
HoldfastEntrySlow:
  .cfi_startproc
  .cfi_def_cfa %rsp, 16
  endbr64
  pushq %rbp
  .cfi_adjust_cfa_offset 8
  .cfi_offset %rbp, -24
  pushq %rax
  pushq %rcx
  pushq %rdx
  pushq %rsi
  pushq %rdi
  pushq %r8
  pushq %r9
  pushq %r10
  pushq %r11
  movq %rsp, %rbp
  .cfi_def_cfa %rbp, 96
  subq holdfast_entry_save(%rip), %rsp
  andq $-64, %rsp
  movl holdfast_entry_save+8(%rip), %eax
  xorl %edx, %edx
  testl %eax, %eax
  jz 1f
  movq %rdx, 512(%rsp)
  movq %rdx, 520(%rsp)
  movq %rdx, 528(%rsp)
  movq %rdx, 536(%rsp)
  movq %rdx, 544(%rsp)
  movq %rdx, 552(%rsp)
  movq %rdx, 560(%rsp)
  movq %rdx, 568(%rsp)
  cmpl $0, holdfast_entry_save+12(%rip)
  jne 2f
  xsave64 (%rsp)
  jmp 3f
2:
  xsavec64 (%rsp)
  jmp 3f
1:
  fxsave64 (%rsp)
3:
  cld
  movq %rbp, %rdi
  call HoldfastEntryCall
  movl holdfast_entry_save+8(%rip), %eax
  xorl %edx, %edx
  testl %eax, %eax
  jz 4f
  xrstor64 (%rsp)
  jmp 5f
4:
  fxrstor64 (%rsp)
5:
  movq %rbp, %rsp
  .cfi_def_cfa %rsp, 96
  popq %r11
  .cfi_adjust_cfa_offset -8
  popq %r10
  .cfi_adjust_cfa_offset -8
  popq %r9
  .cfi_adjust_cfa_offset -8
  popq %r8
  .cfi_adjust_cfa_offset -8
  popq %rdi
  .cfi_adjust_cfa_offset -8
  popq %rsi
  .cfi_adjust_cfa_offset -8
  popq %rdx
  .cfi_adjust_cfa_offset -8
  popq %rcx
  .cfi_adjust_cfa_offset -8
  popq %rax
  .cfi_adjust_cfa_offset -8
  popq %rbp
  .cfi_adjust_cfa_offset -8
  .cfi_restore %rbp
  cmpq $0, (%rsp)
  leaq 8(%rsp), %rsp
  .cfi_adjust_cfa_offset -8
  jne 6f
  ret
6:
  notrack jmp *-8(%rsp)
  .cfi_endproc
  .size HoldfastEntrySlow, .-HoldfastEntrySlow
)");
