// A thread spins for a lock that main holds, for 0.1 s of its CPU time, and at the same place for a second lock, for 0.2 s.
// Prints `spun NANOSECONDS`.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

enum { kSpinNs = 100000000, kLocks = 2 };
static pthread_spinlock_t first_lock, second_lock;
static pthread_spinlock_t* const locks[kLocks] = {&first_lock, &second_lock};
static atomic_int ready;
static clockid_t clock_of_waiter;

static int64_t CpuOfWaiter(void) {
  struct timespec t;
  clock_gettime(clock_of_waiter, &t);
  return t.tv_sec * 1000000000LL + t.tv_nsec;
}

KNOWN void spins_for_it(pthread_spinlock_t* lock) { pthread_spin_lock(lock); }
KNOWN void lets_it_go(pthread_spinlock_t* lock) { pthread_spin_unlock(lock); }

static void* Wait(void* unused) {
  ready = 1;
  for (volatile int i = 0; i < kLocks; ++i) {  // not unrolled: one place
    spins_for_it(locks[i]);
    lets_it_go(locks[i]);
  }
  return unused;
}

int main(void) {
  free(malloc(1 << 21));  // the library makes its table
  for (int i = 0; i < kLocks; ++i) {
    pthread_spin_init(locks[i], PTHREAD_PROCESS_PRIVATE);
    pthread_spin_lock(locks[i]);
  }
  pthread_t thread;
  if (pthread_create(&thread, NULL, Wait, NULL) != 0 || pthread_getcpuclockid(thread, &clock_of_waiter) != 0) abort();
  while (!ready) Sleep(1);
  const int64_t before = CpuOfWaiter();
  int64_t spun = 0;
  for (int i = 0; i < kLocks; ++i) {
    while ((spun = CpuOfWaiter() - before) < kSpinNs * (1 + 2 * i)) Sleep(1);
    lets_it_go(locks[i]);
  }
  pthread_join(thread, NULL);
  printf("spun %lld\n", (long long)spun);
  return 0;
}
