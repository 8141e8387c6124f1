// Four threads that contend for one mutex, mostly with short waits. The exact counters in the profile say how many waits
// there were and how long they took; the program itself only prints that it is done.
#include <pthread.h>
#include <stdlib.h>

#include "known.h"

enum { kThreads = 4, kRounds = 150000 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static volatile unsigned long shared;

KNOWN void takes_the_lock(void) { pthread_mutex_lock(&mutex); }

static void* Work(void* argument) {
  for (int i = 0; i < kRounds; ++i) {
    takes_the_lock();
    for (int k = 0; k < 200 + (i % 64 == 0) * 5000; ++k) shared += 1;
    pthread_mutex_unlock(&mutex);
    for (volatile int k = 0; k < 50; ++k) {
    }
  }
  return argument;
}

int main(void) {
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Work, NULL);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("shared %s\n", shared > 0 ? "counted" : "lost");
  return 0;
}
