// The given number of threads wait for one mutex at the same time, each with a small stack.
//     many_waiters THREADS        77: this machine does not allow that number of threads
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int arrived;

static void* Wait(void* argument) {
  atomic_fetch_add(&arrived, 1);
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  return argument;
}

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 20000;
  pthread_t* ids = calloc((size_t)threads, sizeof *ids);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_attr_setguardsize(&attributes, 0);
  pthread_mutex_lock(&mutex);
  int made = 0;
  while (made < threads && pthread_create(&ids[made], &attributes, Wait, NULL) == 0) ++made;
  while (atomic_load(&arrived) < made) Sleep(1);
  Sleep(20);  // on their way from there to the mutex
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < made; ++i) pthread_join(ids[i], NULL);
  printf("%d threads\n", made);
  return made == threads ? 0 : 77;
}
