// One thread allocates and another frees, while both also do the other's work. Freed blocks must not count as in use.
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "known.h"

enum { kBlocks = 100000, kRing = 64 };
static _Atomic(void*) ring[2][kRing];

KNOWN void* handed_over(size_t size) { return malloc(size); }
KNOWN void take_and_free(void* p) { free(p); }

static void* Produce(void* argument) {
  _Atomic(void*)* out = ring[(size_t)argument];
  for (size_t i = 0; i < kBlocks; ++i) {
    void* block = handed_over(i % 200 + 8);
    void* expected = NULL;
    while (!atomic_compare_exchange_weak(&out[i % kRing], &expected, block)) {
      expected = NULL;
      sched_yield();
    }
  }
  return NULL;
}

static void* Consume(void* argument) {
  _Atomic(void*)* in = ring[(size_t)argument];
  for (size_t i = 0; i < kBlocks; ++i) {
    void* block;
    while (!(block = atomic_exchange(&in[i % kRing], NULL))) sched_yield();
    if (i % 1000 == 999)
      Use(block);  // kept
    else
      take_and_free(block);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[4];
  for (size_t i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, i < 2 ? Produce : Consume, (void*)(i % 2));
  for (size_t i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  size_t bytes = 0, live = 0, live_bytes = 0;
  for (size_t i = 0; i < kBlocks; ++i) {
    bytes += i % 200 + 8;
    if (i % 1000 == 999) live += 1, live_bytes += i % 200 + 8;
  }
  Expect("handed_over", 2 * kBlocks, 2 * bytes, 2 * live, 2 * live_bytes);
  Expect("take_and_free", 0, 0, 0, 0);
  return 0;
}
