// Functions of the program's own that are called like tcmalloc's, with other arguments: they keep one freed block of malloc's.
// Maps memory and gives it back, as allocators do.
#define _GNU_SOURCE
#include <stdlib.h>
#include <sys/mman.h>

#include "known.h"

struct Cache {
  void* freed;
  size_t bytes;
};

KNOWN static void* tc_malloc(struct Cache* cache, size_t bytes) {
  cache->bytes += bytes;
  void* block = cache->freed != NULL ? cache->freed : malloc(bytes);
  cache->freed = NULL;
  Use(block);
  return block;
}
KNOWN static void tc_free(struct Cache* cache, void* block) {
  if (cache->freed != NULL) free(cache->freed);
  cache->freed = block;
}

int main(void) {
  struct Cache cache = {NULL, 0};
  char* mapped = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mapped[0] = 1;
  madvise(mapped, 4096, MADV_DONTNEED);
  for (size_t i = 0; i < 1000; ++i) {
    void* block = tc_malloc(&cache, 100);
    if (i % 2 == 0) tc_free(&cache, block);
  }
  Expect("tc_malloc", 500, 50000, 500, 50000);
  return cache.bytes != 100000;
}
