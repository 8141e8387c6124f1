// A program with its own pthread_tryjoin_np, as ThreadSanitizer links into programs. It rejects threads that another thread
// already joins.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#include "clocks.h"

int pthread_tryjoin_np(pthread_t thread, void** value) {
  (void)thread;
  (void)value;
  fputs("pthread_tryjoin_np: which thread?\n", stderr);
  abort();
}

static void* Ends(void* argument) { return argument; }
static void* Lasts(void* argument) {
  Sleep(20);
  return argument;
}
static int EndsWith7(void* argument) {
  (void)argument;
  return 7;
}

int main(void) {
  void* (*const threads[])(void*) = {Ends, Lasts};
  for (int i = 0; i < 2; ++i) {
    pthread_t thread;
    void* value = NULL;
    struct timespec deadline;
    if (pthread_create(&thread, NULL, threads[i], (void*)(size_t)(i + 1)) != 0) return 1;
    if (i == 0) Sleep(20);
    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec += 60;
    const int result = i == 0 ? pthread_join(thread, &value) : pthread_timedjoin_np(thread, &value, &deadline);
    printf("%d %zu\n", result, (size_t)value);
  }
  thrd_t thread;
  int value = 0;
  if (thrd_create(&thread, EndsWith7, NULL) != thrd_success) return 1;
  const int result = thrd_join(thread, &value);
  printf("%d %d\n", result, value);
  return 0;
}
