// Keeps a busy cache of 4 MB in which blocks replace each other, and leaks 2,000 blocks of 256 bytes per second, for the
// given number of seconds. Prints what was leaked, and in what time.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { kSlots = 1000, kBlock = 256, kBatch = 20 };

static void* cache[kSlots];
static void* volatile sink;

__attribute__((noinline)) static void put_into_cache(unsigned slot, size_t bytes) {
  free(cache[slot]);
  cache[slot] = malloc(bytes);
  memset(cache[slot], 1, 8);
}

__attribute__((noinline)) static void remember_forever(void) {
  sink = malloc(kBlock);
  *(char*)sink = 1;
}

static double now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(int argc, char** argv) {
  const double seconds = argc > 1 ? atof(argv[1]) : 1;
  unsigned random = 1;
  for (unsigned i = 0; i < kSlots; ++i) put_into_cache(i, 4096);
  const double begin = now_ms();
  long leaked = 0;
  while (now_ms() - begin < seconds * 1000) {
    for (int i = 0; i < kBatch; ++i) {
      random = random * 1103515245 + 12345;
      put_into_cache((random >> 8) % kSlots, 1024 + (random >> 16) % 6144);
      remember_forever();
    }
    leaked += kBatch * kBlock;
    // Up to the moment at which this batch is due: a slow machine leaks as fast as a quick one.
    const double due = leaked / (double)(2000 * kBlock) * 1000 - (now_ms() - begin);
    if (due > 0) {
      struct timespec rest = {0, (long)(due * 1e6)};
      if (due >= 1000) rest.tv_sec = (time_t)(due / 1000), rest.tv_nsec = 0;
      nanosleep(&rest, NULL);
    }
  }
  printf("leaked %ld bytes in %.0f ms\n", leaked, now_ms() - begin);
  return 0;
}
