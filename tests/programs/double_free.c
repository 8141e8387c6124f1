// Frees a block twice, which glibc notices: the last one of many that is at a multiple of 1,024 and does not follow the
// one before, so with the library a sampled one.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
  enum { kBlocks = 200000 };
  char* last = NULL;
  char* before = NULL;
  for (int i = 0; i < kBlocks; ++i) {
    char* block = malloc(100);
    if (last == NULL || ((uintptr_t)block % 1024 == 0 && block - before != 112)) last = block;
    before = block;
  }
  puts("twice");
  fflush(stdout);
  free(last);
  char* volatile again = last;
  free(again);
  puts("not noticed");
  return 0;
}
