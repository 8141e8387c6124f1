// The hot paths of new and new[], for arm64: see interpose/arch/entry_points.h. The charge is a pair of exclusive accesses
// (sampler/arch/aarch64/processor_inline.h). `allocate` is called with this frame below it:
//     sp → caller's x29 │ return address into the program │ bytes │ unused │ the program's frame
#include "interpose/arch/entry_points.h"

asm(R"(
  .macro HOLDFAST_NEW name, allocate, due, failed
  .text
  .p2align 5
  .globl \name, holdfast_own\name
  .hidden holdfast_own\name
  .type \name, %function
  .type holdfast_own\name, %function
\name:
holdfast_own\name:
  .cfi_startproc
  hint #34
  adrp x2, holdfast_hot_new
  ldr x3, [x2, :lo12:holdfast_hot_new]
  mrs x4, tpidr_el0
  add x4, x4, x3
  cmp x0, #1
  cinc x1, x0, lo
1:
  ldxr x5, [x4]
  subs x5, x5, x1
  stxr w6, x5, [x4]
  cbnz w6, 1b
  b.ls \due
  add x2, x2, :lo12:holdfast_hot_new
  ldr x9, [x2, #\allocate]
  stp x29, x30, [sp, #-32]!
  .cfi_def_cfa_offset 32
  .cfi_offset x29, -32
  .cfi_offset x30, -24
  mov x29, sp
  str x0, [sp, #16]
  blr x9
  ldr x1, [sp, #16]
  ldp x29, x30, [sp], #32
  .cfi_restore x29
  .cfi_restore x30
  .cfi_def_cfa_offset 0
  cbz x0, 2f
  ret
2:
  mov x0, x1
  b \failed
  .cfi_endproc
  .size \name, .-\name
  .size holdfast_own\name, .-holdfast_own\name
  .endm

  .macro HOLDFAST_CALL_ELSEWHERE name, target
  .globl \name
  .hidden \name
  .type \name, %function
\name:
  .cfi_startproc
  hint #34
  ldp x3, x1, [sp]
  add x2, sp, #32
  b \target
  .cfi_endproc
  .size \name, .-\name
  .endm

  HOLDFAST_NEW _Znwm, 8, HoldfastNewDue, HoldfastNewFailed
  HOLDFAST_NEW _Znam, 16, HoldfastNewArrayDue, HoldfastNewArrayFailed
  HOLDFAST_CALL_ELSEWHERE HoldfastCallNewElsewhere, HoldfastNewElsewhere
  HOLDFAST_CALL_ELSEWHERE HoldfastCallNewArrayElsewhere, HoldfastNewArrayElsewhere
)");
static_assert(offsetof(holdfast::HotNew, allocate) == 8 && offsetof(holdfast::HotNew, allocate_array) == 16);
