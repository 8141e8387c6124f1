// Checks that every block keeps its bytes, is zeroed if promised, and is aligned as requested. Four threads allocate, resize
// and free in every way, with many more blocks than the default interval needs to sample some.
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kThreads = 4, kSlots = 256, kRounds = 40000 };
static _Atomic int wrong;

static uint64_t Next(uint64_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  *state ^= *state << 17;
  return *state;
}

static int Holds(const unsigned char* block, size_t size, unsigned char value) {
  for (size_t i = 0; i < size; i += size < 4096 ? 1 : 997) {
    if (block[i] != value) return 0;
  }
  return 1;
}

static void* Work(void* number) {
  uint64_t random = 88172645463325252u + (uintptr_t)number;
  unsigned char* blocks[kSlots] = {0};
  size_t sizes[kSlots] = {0};
  unsigned char values[kSlots] = {0};
  for (int round = 0; round < kRounds; ++round) {
    const unsigned slot = Next(&random) % kSlots;
    const size_t limit = Next(&random) % 64 == 0 ? 300000 : 3000;
    const size_t size = 1 + Next(&random) % limit;
    if (blocks[slot] && !Holds(blocks[slot], sizes[slot], values[slot])) ++wrong;
    unsigned char* block = blocks[slot];
    switch (Next(&random) % 6) {
      case 0:
        free(block);
        block = calloc(1, size);
        if (!Holds(block, size, 0)) ++wrong;
        break;
      case 1: {
        const size_t kept = size < sizes[slot] ? size : sizes[slot];
        block = realloc(block, size);
        if (!Holds(block, kept, values[slot])) ++wrong;
        break;
      }
      case 2: {
        const size_t alignment = (size_t)16 << Next(&random) % 9;
        free(block);
        if (posix_memalign((void**)&block, alignment, size) || (uintptr_t)block % alignment) ++wrong;
        break;
      }
      case 3:
        free(block);
        if (posix_memalign((void**)&block, 4, size) == 0) ++wrong;  // not an alignment that it takes
        block = memalign(8, size);
        break;
      default:
        free(block);
        block = malloc(size);
    }
    if ((uintptr_t)block % 16 || malloc_usable_size(block) < size) ++wrong;
    blocks[slot] = block;
    sizes[slot] = size;
    values[slot] = (unsigned char)(1 + round % 255);
    memset(block, values[slot], size);
  }
  for (int slot = 0; slot < kSlots; ++slot) free(blocks[slot]);
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  for (uintptr_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Work, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%d wrong\n", wrong);
  return wrong != 0;
}
