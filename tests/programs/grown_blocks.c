// Large blocks that are mostly untouched: the pages that realloc and calloc leave untouched must stay so. Prints the
// resident KiB after each.
#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

#define BLOCKS 10
#define FILLED (64 << 10)
#define GROWN (30 << 20)

static void Tell(const char* when) {
  static char line[256];
  FILE* status = fopen("/proc/self/status", "r");
  while (fgets(line, sizeof line, status) != NULL) {
    if (strncmp(line, "VmRSS:", 6) == 0) printf("%s %ld\n", when, atol(line + 6));
  }
  fclose(status);
}

int main(void) {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);  // all in one heap, so that mremap has no part in it
  for (int i = 0; i < BLOCKS; ++i) {
    char* block = malloc(FILLED);
    memset(block, 'a' + i, FILLED);
    Use(malloc(64));  // so that it cannot grow where it is
    block = realloc(block, GROWN);
    Use(realloc(NULL, GROWN));
    for (int at = 0; at < FILLED; ++at) {
      if (block[at] != 'a' + i) return 1;
    }
  }
  Tell("realloc");
  for (int i = 0; i < BLOCKS; ++i) Use(calloc(GROWN, 1));
  Tell("calloc");
  // Whatever was left in the memory of a block is not in the next one.
  for (int i = 0; i < 40; ++i) {
    const size_t size = 40000 + 4099 * i;
    char* dirty = malloc(size);
    memset(dirty, 0, size);
    dirty[size - 1] = dirty[i * 997] = 'x';
    free(dirty);
    char* clean = calloc(size, 1);
    for (size_t at = 0; at < size; ++at) {
      if (clean[at] != 0) return 2;
    }
    free(clean);
  }
  return 0;
}
