// Frees everything that it allocated. Prints nothing, because stdio's buffer would remain.
#include <stdlib.h>

#include "known.h"

KNOWN void* passing_blocks(size_t size) { return malloc(size); }

int main(void) {
  void* blocks[100];
  for (int i = 0; i < 100; ++i) blocks[i] = passing_blocks(65536);
  for (int i = 0; i < 100; ++i) free(blocks[i]);
  return 0;
}
