// Named threads that never wait for each other: four of a pool that only allocate, one that ends before the others ("brief"),
// and one without a name of its own. Each step is a line on standard input, so that a snapshot can be taken in between.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

enum { kPool = 4, kBlocks = 200, kEnd = 1000 };

static atomic_int done, step;

KNOWN void* allocate_in_thread(size_t size) { return malloc(size); }
static void Spin(int until) {
  while (atomic_load(&step) < until) usleep(1000);
}

KNOWN void* pool_worker(void* argument) {
  char name[16];
  snprintf(name, sizeof name, "io-%zu", (size_t)argument);
  pthread_setname_np(pthread_self(), name);
  for (int i = 0; i < kBlocks; ++i) Use(allocate_in_thread(5000));
  atomic_fetch_add(&done, 1);
  Spin(kEnd);
  return NULL;
}
KNOWN void* brief_worker(void* argument) {
  pthread_setname_np(pthread_self(), "brief");
  for (int i = 0; i < kBlocks; ++i) Use(allocate_in_thread(5000));
  atomic_fetch_add(&done, 1);
  Spin(2);
  return argument;
}
KNOWN void* nameless_worker(void* argument) {
  for (int i = 0; i < kBlocks; ++i) Use(allocate_in_thread(5000));
  atomic_fetch_add(&done, 1);
  Spin(kEnd);
  return argument;
}

int main(void) {
  pthread_t pool[kPool], brief, nameless;
  for (size_t i = 0; i < kPool; ++i) pthread_create(&pool[i], NULL, pool_worker, (void*)i);
  pthread_create(&brief, NULL, brief_worker, NULL);
  pthread_create(&nameless, NULL, nameless_worker, NULL);
  while (atomic_load(&done) < kPool + 2) usleep(1000);
  printf("ready\n");
  fflush(stdout);
  char line[100];
  while (fgets(line, sizeof line, stdin)) {
    const int now = atomic_fetch_add(&step, 1) + 1;
    if (now == 2) pthread_join(brief, NULL);
    Use(allocate_in_thread(5000));  // so that there is something new
    printf("done %d\n", now);
    fflush(stdout);
  }
  atomic_store(&step, kEnd);
  for (int i = 0; i < kPool; ++i) pthread_join(pool[i], NULL);
  pthread_join(nameless, NULL);
  return 0;
}
