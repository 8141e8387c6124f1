// Four threads allocate and free in named functions. Totals are exact in any order.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

enum { kThreads = 4, kRounds = 20000 };

static void* kept[kThreads][kRounds];

KNOWN void* allocate_and_keep(size_t size) { return malloc(size); }
KNOWN void allocate_and_free(size_t size) {
  void* p = malloc(size);
  memset(p, 1, size);
  free(p);
}
KNOWN void* allocate_zeroed(size_t count, size_t size) { return calloc(count, size); }

static void* Work(void* argument) {
  const size_t me = (size_t)argument;
  for (size_t i = 0; i < kRounds; ++i) {
    kept[me][i] = allocate_and_keep(i % 100 + 1);
    allocate_and_free(i % 1000 + 1);
    void* zeroed = allocate_zeroed(i % 7 + 1, 16);
    if (i % 2) free(zeroed);
    if (i % 4 == 0) {
      free(kept[me][i]);
      kept[me][i] = NULL;
    }
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Work, (void*)i);
  for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  size_t keep = 0, keep_bytes = 0, live = 0, live_bytes = 0, brief_bytes = 0, zero_bytes = 0, zero_live = 0,
         zero_live_bytes = 0;
  for (size_t i = 0; i < kRounds; ++i) {
    keep += 1;
    keep_bytes += i % 100 + 1;
    if (i % 4) live += 1, live_bytes += i % 100 + 1;
    brief_bytes += i % 1000 + 1;
    zero_bytes += (i % 7 + 1) * 16;
    if (i % 2 == 0) zero_live += 1, zero_live_bytes += (i % 7 + 1) * 16;
  }
  Expect("allocate_and_keep", keep * kThreads, keep_bytes * kThreads, live * kThreads, live_bytes * kThreads);
  Expect("allocate_and_free", keep * kThreads, brief_bytes * kThreads, 0, 0);
  Expect("allocate_zeroed", keep * kThreads, zero_bytes * kThreads, zero_live * kThreads, zero_live_bytes * kThreads);
  return 0;
}
