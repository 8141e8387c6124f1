// Functions of the program's own that are called like mimalloc's and pass their calls on to malloc. With MAPS, it calls what
// allocators call as well.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "known.h"

KNOWN void* mi_malloc(size_t bytes) {
  void* block = malloc(bytes);
  Use(block);
  return block;
}
KNOWN void* mi_heap_malloc(void* heap, size_t bytes) {
  Use(heap);
  void* block = malloc(bytes);
  Use(block);
  return block;
}
KNOWN void mi_free(void* block) {
  Use(block);
  free(block);
}

int main(int count, char** arguments) {
#ifdef MAPS
  char* mapped = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mapped[0] = 1;
  madvise(mapped, 4096, MADV_DONTNEED);
#endif
  for (int i = 0; i < 100; ++i) {
    void* block = mi_malloc(100);
    if (i % 2 == 0) mi_free(block);
    mi_free(mi_heap_malloc(arguments, 200));
  }
  Expect("mi_malloc", 100, 10000, 50, 5000);
  Expect("mi_heap_malloc", 100, 20000, 0, 0);
  if (count > 1) {
    puts("worked");
    fflush(stdout);
    getchar();
  }
  return 0;
}
