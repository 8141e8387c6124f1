// Reaches a peak with a height known to the byte, which is over before anybody can look.
//
//   short_peak SHAPE COUNT BYTES [THREADS]
//     one       a block at a time
//     burst     all blocks, then none; each thread has as many, and all threads have theirs at one moment
//     saw       two more, one less, while there are fewer than COUNT
//     grown     one block, grown by realloc, COUNT times by BYTES
//     handed    all blocks, freed by another thread, twice
//     after     the main thread allocates and frees all, then another thread does, while the main thread spins
//     turns     two threads: the first allocates and frees all, the second allocates all, and the first allocates all again
//     passed    one thread allocates all, another frees them, five times; then the second allocates all, then the first again
//
// Prints "peak BYTES". Does not use stdio, which allocates.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

enum { kMaxThreads = 512 };
static size_t count, bytes;
static pthread_barrier_t all_there;

KNOWN void* hold(void) {
  void* block = malloc(bytes);
  Use(block);
  return block;
}

static void** MakeAll(void) {
  void** blocks = calloc(count, sizeof *blocks);
  for (size_t i = 0; i < count; ++i) blocks[i] = hold();
  return blocks;
}
static void* FreeAll(void* made) {
  void** blocks = made;
  for (size_t i = 0; i < count; ++i) free(blocks[i]);
  free(blocks);
  return NULL;
}
static void* Burst(void* none) {
  (void)none;
  void** blocks = MakeAll();
  pthread_barrier_wait(&all_there);
  return FreeAll(blocks);
}

// Two threads do what they are asked to, one step at a time. They spin, because a sleeping thread gives up what it keeps.
enum Step { kNothing, kMake, kFree, kFreeOthers, kEnd };
static _Atomic int asked[2];
static void** made[2];
static void* Obey(void* which) {
  const size_t own = (size_t)which;
  for (;;) {
    const int step = atomic_load(&asked[own]);
    if (step == kMake) made[own] = MakeAll();
    if (step == kFree) FreeAll(made[own]);
    if (step == kFreeOthers) FreeAll(made[1 - own]);
    if (step == kEnd) return NULL;
    if (step == kNothing) sched_yield();
    if (step != kNothing) atomic_store(&asked[own], kNothing);
  }
}
static void Ask(size_t which, enum Step step) {
  atomic_store(&asked[which], step);
  while (step != kEnd && atomic_load(&asked[which]) != kNothing) sched_yield();
}
static void Obeyed(int passes) {
  pthread_t others[2];
  for (size_t i = 0; i < 2; ++i) pthread_create(&others[i], NULL, Obey, (void*)i);
  for (int i = 0; i < passes; ++i) {
    Ask(0, kMake);
    Ask(1, kFreeOthers);
  }
  if (passes == 0) {
    Ask(0, kMake);
    Ask(0, kFree);
  }
  Ask(1, kMake);
  Ask(0, kMake);
  for (size_t i = 0; i < 2; ++i) Ask(i, kFree);
  for (size_t i = 0; i < 2; ++i) Ask(i, kEnd);
  for (size_t i = 0; i < 2; ++i) pthread_join(others[i], NULL);
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const char* shape = argv[1];
  count = (size_t)atol(argv[2]);
  bytes = (size_t)atol(argv[3]);
  const size_t threads = argc > 4 ? (size_t)atol(argv[4]) : 1;
  size_t peak = count * (bytes + sizeof(void*));
  if (strcmp(shape, "one") == 0) {
    for (size_t i = 0; i < count; ++i) free(hold());
    peak = bytes;
  } else if (strcmp(shape, "burst") == 0) {
    pthread_t others[kMaxThreads];
    pthread_barrier_init(&all_there, NULL, (unsigned)threads);
    for (size_t i = 1; i < threads; ++i) pthread_create(&others[i], NULL, Burst, NULL);
    Burst(NULL);
    for (size_t i = 1; i < threads; ++i) pthread_join(others[i], NULL);
    peak *= threads;
  } else if (strcmp(shape, "saw") == 0) {
    void** blocks = calloc(count, sizeof *blocks);
    for (size_t held = 0; held < count;) {
      blocks[held++] = hold();
      if (held == count) break;
      blocks[held++] = hold();
      if (held < count) free(blocks[--held]);
    }
    FreeAll(blocks);
  } else if (strcmp(shape, "grown") == 0) {
    void* block = NULL;
    for (size_t i = 1; i <= count; ++i) Use(block = realloc(block, i * bytes));
    free(block);
    peak = count * bytes;
  } else if (strcmp(shape, "handed") == 0) {
    for (int i = 0; i < 2; ++i) {
      pthread_t other;
      pthread_create(&other, NULL, FreeAll, MakeAll());
      pthread_join(other, NULL);
    }
  } else if (strcmp(shape, "after") == 0) {
    FreeAll(MakeAll());
    pthread_t other;
    pthread_create(&other, NULL, Obey, 0);
    Ask(0, kMake);
    Ask(0, kFree);
    Ask(0, kEnd);
    pthread_join(other, NULL);
  } else if (strcmp(shape, "turns") == 0 || strcmp(shape, "passed") == 0) {
    Obeyed(shape[0] == 'p' ? 5 : 0);
    peak *= 2;
  }
  char text[64];
  const int length = snprintf(text, sizeof text, "peak %zu\n", peak);
  return write(1, text, (size_t)length) == length ? 0 : 1;
}
