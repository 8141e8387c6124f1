// BOLT splits `splits` by a profile (rearranged_test.cc) in which its first branch is never taken: the cold part gets a symbol
// of its own. `stays` is not in that profile.
#include <stdlib.h>

#include "known.h"

KNOWN void* hot_allocates(size_t bytes) {
  void* block = malloc(bytes);
  Use(block);
  return block;
}
KNOWN void* cold_allocates(size_t bytes) {
  void* block = malloc(bytes);
  Use(block);
  return block;
}

// The profile has the offsets of these instructions.
void* splits(long rarely);
__asm__(
    ".text\n.globl splits\n.type splits,@function\nsplits:\n.cfi_startproc\n"
    "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx,-16\n"  // 0
    "mov %rdi,%rbx\n"                                              // 1
    "test %rdi,%rdi\n"                                             // 4
    ".byte 0x0f,0x85\n.long 1f-.-4\n"                              // 7: jne
    "mov $100,%edi\n"                                              // d
    "call hot_allocates\n"                                         // 12
    "jmp 2f\n"                                                     // 17
    "1: mov $50,%edi\n"                                            // 19
    "call cold_allocates\n"                                        // 1e
    "2: pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n"                // 23
    ".cfi_endproc\n.size splits,.-splits\n");

KNOWN void stays(void) {
  for (int i = 0; i < 10; ++i) Use(splits(i % 5 == 0));
}

int main(void) {
  stays();
  Expect("hot_allocates", 8, 800, 8, 800);
  Expect("cold_allocates", 2, 100, 2, 100);
  return 0;
}
