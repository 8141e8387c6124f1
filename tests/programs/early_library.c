// A library with an early constructor that allocates. The blocks are used and freed much later.
#include <stdlib.h>
#include <string.h>

#include "known.h"

void* early_block;
void* early_zeroed;

__attribute__((constructor(101))) static void Construct(void) {
  early_block = malloc(1234);
  memset(early_block, 'e', 1234);
  early_zeroed = calloc(100, 7);
  free(malloc(99));
}
