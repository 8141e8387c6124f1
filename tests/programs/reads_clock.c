// Threads that read the clock, allocate, and wait for each other and for timeouts, by the program's own clock.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kThreads = 4, kRounds = 2000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void* Run(void* argument) {
  for (int i = 0; i < kRounds; ++i) {
    struct timespec now;
    clock_gettime(i % 2 == 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC, &now);
    void* volatile block = malloc((size_t)(200 + i % 1000));
    pthread_mutex_lock(&mutex);
    free(block);
    pthread_mutex_unlock(&mutex);
  }
  return argument;
}

// The caller holds `mutex`.
static void* RunsOutOfTime(void* argument) {
  struct timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  *(int*)argument = pthread_mutex_timedlock(&mutex, &until);
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Run, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  int result = -1;
  pthread_mutex_lock(&mutex);
  pthread_create(&threads[0], NULL, RunsOutOfTime, &result);
  pthread_join(threads[0], NULL);
  pthread_mutex_unlock(&mutex);
  puts(result == ETIMEDOUT ? "done" : "no end of time");
  return 0;
}
