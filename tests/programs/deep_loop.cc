// Allocates and frees in a loop below a stack of 32 frames. scripts/exact_path counts it.
//     deep_loop ROUNDS [new]
#include <stdlib.h>
#include <string.h>

#include <new>

#include "known.h"

static volatile int frames_left;

static void* volatile block;

KNOWN void works(long rounds, bool by_new) {
  for (long i = 0; i < rounds; ++i) {
    if (by_new) {
      block = ::operator new(64);
      ::operator delete(block);
    } else {
      block = malloc(64);
      free(block);
    }
  }
}

// main, what lies above it, and `works` are the others of the 32.
KNOWN void deep(int depth, long rounds, bool by_new) {
  depth == 0 ? works(rounds, by_new) : deep(depth - 1, rounds, by_new);
  frames_left = depth;
}

int main(int argc, char** argv) {
  deep(25, argc > 1 ? atol(argv[1]) : 1000, argc > 2 && strcmp(argv[2], "new") == 0);
  return 0;
}
