// A thread spins for a lock that main holds, for 0.1 s of its CPU time. Prints
// `spun NANOSECONDS`.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

enum { kSpinNs = 100000000 };
static pthread_spinlock_t ticket_lock;
static atomic_int ready;
static clockid_t clock_of_waiter;

static int64_t CpuOfWaiter(void) {
  struct timespec t;
  clock_gettime(clock_of_waiter, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

KNOWN void spins_for_it(void) { pthread_spin_lock(&ticket_lock); }
KNOWN void lets_it_go(void) { pthread_spin_unlock(&ticket_lock); }

static void* Wait(void* unused) {
  ready = 1;
  spins_for_it();
  lets_it_go();
  return unused;
}

int main(void) {
  free(malloc(1 << 21));  // the library makes its table
  pthread_spin_init(&ticket_lock, PTHREAD_PROCESS_PRIVATE);
  pthread_spin_lock(&ticket_lock);
  pthread_t thread;
  if (pthread_create(&thread, NULL, Wait, NULL) != 0 || pthread_getcpuclockid(thread, &clock_of_waiter) != 0) abort();
  while (!ready) Sleep(1);
  const int64_t before = CpuOfWaiter();
  while (CpuOfWaiter() < before + kSpinNs) Sleep(1);
  const int64_t spun = CpuOfWaiter() - before;
  lets_it_go();
  pthread_join(thread, NULL);
  printf("spun %lld\n", (long long)spun);
  return 0;
}
