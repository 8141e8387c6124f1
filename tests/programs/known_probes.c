// Allocates 100 MiB in blocks of several sizes by each function, and frees three of four.
#include <malloc.h>
#include <stdlib.h>

#include "known.h"

enum { kRounds = 300 };

int main(void) {
  for (int i = 0; i < kRounds; ++i) {
    void* blocks[4] = {malloc(1000), calloc(10, 1000), memalign(64, 100000), malloc(200000)};
    blocks[0] = realloc(blocks[0], 30000);
    for (int k = 0; k < 4; ++k) {
      Use(blocks[k]);
      if (i % 4 != k) free(blocks[k]);
    }
  }
  return 0;
}
