// Allocates a known amount, then waits forever for a mutex that it holds itself.
#include <pthread.h>
#include <stdlib.h>

#include "known.h"

KNOWN void* before_the_deadlock(void) { return malloc(100); }

int main(void) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < 100; ++i) {
    void* p = before_the_deadlock();
    if (i % 2) free(p);
  }
  Expect("before_the_deadlock", 100, 10000, 50, 5000);
  pthread_mutex_lock(&mutex);
  printf("ready\n");
  fflush(stdout);
  pthread_mutex_lock(&mutex);
  return 0;
}
