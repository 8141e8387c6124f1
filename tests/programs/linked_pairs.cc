// Pairs of malloc and free in a loop, of an allocator that is linked in: scripts/fast_path counts what the library adds.
#include <stdlib.h>

#include <cstddef>

extern "C" {

__attribute__((noinline, used)) void measured_linked(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    void* block = malloc(64);
    __asm__ volatile("" : : "r"(block) : "memory");
    free(block);
  }
}

}  // extern "C"

int main() {
  void (*volatile warm_up)(int) = [](int rounds) {
    for (int i = 0; i < rounds; ++i) {
      void* block = malloc(64);
      __asm__ volatile("" : : "r"(block) : "memory");
      free(block);
    }
  };
  warm_up(1000);
  measured_linked(8192);
  return 0;
}
