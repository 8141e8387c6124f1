// Waits for a condition in two parts: until the signal, and until the mutex is released. The signaller keeps the mutex; with
// the argument `beside`, another thread does.
//     waits FUNCTION label contentions delay_ns
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

enum { kWaiters = 3, kMs = 40 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int ready, arrived;
static uint64_t before_signal, after_signal, signalled_at;

KNOWN void waits(void) { pthread_cond_wait(&condition, &mutex); }
static void* Waiter(void* argument) {
  pthread_mutex_lock(&mutex);
  const uint64_t start = Now();
  ++arrived;
  while (!ready) waits();
  before_signal += signalled_at - start;
  after_signal += Now() - signalled_at;
  Sleep(10);  // the others wait for this, too
  pthread_mutex_unlock(&mutex);
  return argument;
}
KNOWN void signals_and_holds(void) { pthread_mutex_unlock(&mutex); }
static void* JustEnds(void* argument) {
  Sleep(20);
  return argument;
}

static void* Signaller(void* argument) {
  signalled_at = Now();
  pthread_cond_broadcast(&condition);
  return argument;
}

int main(int argc, char** argv) {
  (void)argv;
  pthread_t threads[kWaiters + 1];
  pthread_create(&threads[0], NULL, JustEnds, NULL);  // the first wait of a process makes its table
  pthread_join(threads[0], NULL);
  for (int i = 0; i < kWaiters; ++i) pthread_create(&threads[i], NULL, Waiter, NULL);
  for (int all = 0; !all;) {
    Sleep(kMs);
    pthread_mutex_lock(&mutex);
    all = arrived == kWaiters;
    if (!all) pthread_mutex_unlock(&mutex);
  }
  ready = 1;
  if (argc == 1) {
    Signaller(NULL);
  } else {
    pthread_create(&threads[kWaiters], NULL, Signaller, NULL);
    pthread_join(threads[kWaiters], NULL);
  }
  Sleep(kMs);
  const uint64_t held_ns = Now() - signalled_at;
  signals_and_holds();
  for (int i = 0; i < kWaiters; ++i) pthread_join(threads[i], NULL);
  printf("waits waits condition %d %llu\n", kWaiters, (unsigned long long)before_signal);
  printf("waits waits mutex %d %llu\n", kWaiters, (unsigned long long)after_signal);
  printf("held signals_and_holds %llu\n", (unsigned long long)(held_ns * kWaiters));
  return 0;
}
