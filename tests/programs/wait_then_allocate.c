// Threads that first wait for a mutex, and then allocate: 1 byte, nothing, and in ways with separately measured entry
// points. There are more threads than rows of their own (kMaxOwners).
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"
#include "known.h"

enum { kThreads = 60 };

KNOWN void* make_one(void) { return malloc(1); }
KNOWN void* make_aligned(void) { return aligned_alloc(64, 1); }
KNOWN void* make_none(void) { return aligned_alloc(64, 0); }

static _Atomic int thread_ids[kThreads];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void* Run(void* argument) {
  thread_ids[(size_t)argument] = (int)syscall(SYS_gettid);
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  // Each of the three is the first one of some threads.
  void* (*const makers[])(void) = {make_one, make_aligned, make_none};
  for (size_t i = 0; i < 3; ++i) Use(makers[((size_t)argument + i) % 3]());
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  free(malloc(8));
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Run, (void*)i);
  for (size_t i = 0; i < kThreads; ++i) {
    while (!thread_ids[i] || !Sleeps(thread_ids[i])) usleep(1000);
  }
  pthread_mutex_unlock(&mutex);
  for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  Expect("make_one", kThreads, kThreads, kThreads, kThreads);
  Expect("make_aligned", kThreads, kThreads, kThreads, kThreads);
  Expect("make_none", kThreads, 0, kThreads, 0);
  return 0;
}
