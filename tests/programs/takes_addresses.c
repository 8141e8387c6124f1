// Takes the addresses of malloc and free, which gives a position-dependent program its own PLT entries for them (as in
// Debian's python3). Then a ring of live blocks, for callgrind to count: measured_ring makes ROUNDS rounds.
#include <stdlib.h>
#include <string.h>

#include "known.h"

enum { kBlocks = 64, kRounds = 20000 };
static void* blocks[kBlocks];
static void* (*volatile allocate)(size_t);
static void (*volatile release)(void*);

static void Ring(int rounds) {
  for (int i = 0; i < rounds; ++i) {
    release(blocks[i % kBlocks]);
    blocks[i % kBlocks] = allocate(16 + i % 7 * 24);
  }
}

KNOWN void measured_ring(void) { Ring(kRounds); }

int main(void) {
  // In code, not in data: an address that the linker has to know, so it makes an entry and takes that one's.
  allocate = malloc;
  release = free;
  Ring(10 * kBlocks);
  measured_ring();
  return 0;
}
