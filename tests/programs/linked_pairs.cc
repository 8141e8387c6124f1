// Pairs of malloc and free in a loop, of an allocator that is linked in: scripts/fast_path counts what the library adds.
//
//   linked_pairs           for callgrind
//   linked_pairs steps     prints the instructions of the loop, for an allocator that cannot begin below valgrind
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <cstddef>

static volatile long steps = 0;

extern "C" {

__attribute__((noinline, used)) void measured_linked(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    void* block = malloc(64);
    __asm__ volatile("" : : "r"(block) : "memory");
    free(block);
  }
}

}  // extern "C"

// Each instruction ends in a SIGTRAP while the flag is set.
static void SetTrapFlag(bool is_set) {
#if defined(__x86_64__)
  constexpr long kTrapFlag = 0x100;
  long flags;
  __asm__ volatile("lea -128(%%rsp), %%rsp; pushfq; pop %0; lea 128(%%rsp), %%rsp" : "=r"(flags));
  flags = is_set ? flags | kTrapFlag : flags & ~kTrapFlag;
  __asm__ volatile("lea -128(%%rsp), %%rsp; push %0; popfq; lea 128(%%rsp), %%rsp" : : "r"(flags) : "cc", "memory");
#else
  static_cast<void>(is_set);
#endif
}

int main(int argc, char**) {
  void (*volatile warm_up)(int) = [](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      void* block = malloc(64);
      __asm__ volatile("" : : "r"(block) : "memory");
      free(block);
    }
  };
  warm_up(1000);
  if (argc > 1) signal(SIGTRAP, [](int) { steps = steps + 1; });
  if (argc > 1) SetTrapFlag(true);
  measured_linked(8192);
  if (argc > 1) SetTrapFlag(false);
  if (argc > 1) printf("%ld\n", static_cast<long>(steps));
  return 0;
}
