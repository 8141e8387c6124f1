// Fragments the heap more and more: each round allocates blocks that are larger than all before, and shrinks each to a few bytes. The holes
// between them join nothing, and no later block fits into one. Lives for a second first, as younger processes have no account of
// memory, and asks for a snapshot after each round.
//
//     fragments ROUNDS
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clocks.h"
#include "heap_files.h"
#include "include/holdfast.h"

enum { kBytesOfRound = 3 << 20, kFew = 24, kFirst = 1200, kLarger = 160 };

static void** kept;
static __attribute__((noinline)) void handle_batch(size_t size) {
  const size_t count = kBytesOfRound / size;
  void*** blocks = malloc(count * sizeof(void**));
  for (size_t i = 0; i < count; ++i) blocks[i] = memset(malloc(size), 1, size);
  for (size_t i = 0; i < count; ++i) {
    void** few = realloc(blocks[i], kFew);
    *few = kept;
    kept = few;
  }
  free(blocks);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  memset(malloc(8 << 20), 1, 8 << 20);
  Sleep(1100);
  for (int round = 0; round < atoi(argv[1]); ++round) {
    handle_batch(kFirst + kLarger * (size_t)round);
    const size_t before = HeapFiles();
    holdfast_snapshot();
    Sleep(50);
    for (int tries = 0; tries < 500 && HeapFiles() == before; ++tries) Sleep(10);
  }
  _exit(0);
}
