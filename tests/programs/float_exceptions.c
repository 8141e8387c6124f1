// A program that watches its floating-point arithmetic. Its threads allocate, free and wait for each other.
//
//     float_exceptions traps    each exception is a signal (feenableexcept)
//     float_exceptions flags    no exception has occurred, and results are rounded upward
//
// Prints "kept", or which state changed.
#define _GNU_SOURCE
#include <fenv.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "known.h"

enum { kBlocks = 20000, kWaits = 50 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int traps;

static void Prepare(void) {
  feclearexcept(FE_ALL_EXCEPT);
  if (traps)
    feenableexcept(FE_ALL_EXCEPT);
  else
    fesetround(FE_UPWARD);
}
static int Changed(void) {
  return traps ? fegetexcept() != FE_ALL_EXCEPT : fetestexcept(FE_ALL_EXCEPT) != 0 || fegetround() != FE_UPWARD;
}

KNOWN void* allocate(size_t bytes) { return malloc(bytes); }

static void* Work(void* unused) {
  (void)unused;
  Prepare();
  for (size_t i = 0; i < kBlocks; ++i) {
    void* const block = allocate(100 + i % 5000);
    if (i % 2)
      free(realloc(block, 300));
    else
      free(block);
  }
  for (int i = 0; i < kWaits; ++i) {
    pthread_mutex_lock(&mutex);
    const struct timespec hold = {0, 300000};
    nanosleep(&hold, NULL);
    pthread_mutex_unlock(&mutex);
  }
  return (void*)(size_t)Changed();
}

int main(int argc, char** argv) {
  traps = argc > 1 && !strcmp(argv[1], "traps");
  pthread_t threads[3];
  size_t changed = 0;
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, Work, NULL);
  for (int i = 0; i < 3; ++i) {
    void* result;
    pthread_join(threads[i], &result);
    changed += (size_t)result;
  }
  printf(changed ? "changed in %zu threads\n" : "kept\n", changed);
  return changed != 0;
}
