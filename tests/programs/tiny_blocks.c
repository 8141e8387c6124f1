// Blocks of 8, 16 and 24 bytes, side by side, of two threads, freed in another order and half of them by the other thread; in the freed
// places come larger ones and tiny ones again. One in five stays.
//     tiny_blocks [BLOCKS of each size and thread]
#include <pthread.h>
#include <stdlib.h>

#include "known.h"

enum { kThreads = 2, kSizes = 4 };
static const size_t sizes[kSizes] = {8, 16, 24, 48};
static size_t count = 20000;
static void** blocks[kThreads];
static pthread_barrier_t barrier;

KNOWN void* make_8(void) { return malloc(8); }
KNOWN void* make_16(void) { return malloc(16); }
KNOWN void* make_24(void) { return malloc(24); }
KNOWN void* make_48(void) { return malloc(48); }
static void* (*const make[kSizes])(void) = {make_8, make_16, make_24, make_48};

static int stays(size_t i) { return i % 5 == 4; }

static void* work(void* argument) {
  const size_t self = (size_t)argument, other = kThreads - 1 - self;
  const size_t all = count * kSizes;
  for (int round = 0; round < 3; ++round) {
    // In the second round size by size.
    for (size_t i = 0; i < all; ++i) {
      const size_t at = round == 1 ? i / count + i % count * kSizes : i;
      if (blocks[self][at] == NULL) Use(blocks[self][at] = make[at % kSizes]());
    }
    pthread_barrier_wait(&barrier);
    // 7,919 is prime to the number: comes to each block once. Even ones are the owner's, the others the other thread's.
    for (size_t i = 0; i < all; ++i) {
      const size_t at = i * 7919 % all;
      void** const block = &blocks[at % 2 == 0 ? self : other][at];
      if (stays(at)) continue;
      free(*block);
      *block = NULL;
    }
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc > 1) count = (size_t)atol(argv[1]);
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (int i = 0; i < kThreads; ++i) blocks[i] = calloc(count * kSizes, sizeof(void*));
  pthread_t thread;
  pthread_create(&thread, NULL, work, (void*)1);
  work((void*)0);
  pthread_join(thread, NULL);
  for (size_t size = 0; size < kSizes; ++size) {
    size_t live = 0;
    for (size_t at = size; at < count * kSizes; at += kSizes) live += (size_t)stays(at);
    live *= kThreads;
    const size_t made = 3 * count * kThreads - 2 * live;
    char name[16];
    snprintf(name, sizeof name, "make_%zu", sizes[size]);
    Expect(name, made, made * sizes[size], live, live * sizes[size]);
  }
  return 0;
}
