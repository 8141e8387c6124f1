// A thousand short threads, a few at a time.
#include <pthread.h>
#include <stdlib.h>

#include "known.h"

KNOWN void* in_a_short_thread(size_t size) { return malloc(size); }

static void* Work(void* argument) {
  for (size_t i = 0; i < 10; ++i) {
    void* p = in_a_short_thread(i + 1);
    if (i != 3) free(p);
  }
  return argument;
}

int main(void) {
  pthread_t threads[8];
  for (int round = 0; round < 125; ++round) {
    for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, Work, NULL);
    for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  }
  Expect("in_a_short_thread", 10000, 55000, 1000, 4000);
  return 0;
}
