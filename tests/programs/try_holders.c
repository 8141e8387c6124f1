// Locks that were acquired with try functions, or several times, and held while another thread waits. The wait is charged to
// that holder when it releases the lock.
//     waits FUNCTION label contentions delay_ns          held by holds_FUNCTION
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static mtx_t c11;
static pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;

KNOWN void for_trylock(void) { pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex); }
KNOWN void holds_for_trylock(void) { pthread_mutex_unlock(&mutex); }
static int Trylock(void) { return pthread_mutex_trylock(&mutex); }

KNOWN void for_mtx_trylock(void) { mtx_lock(&c11), mtx_unlock(&c11); }
KNOWN void holds_for_mtx_trylock(void) { mtx_unlock(&c11); }
static int MtxTrylock(void) { return mtx_trylock(&c11); }

KNOWN void for_recursive(void) { pthread_mutex_lock(&recursive), pthread_mutex_unlock(&recursive); }
KNOWN void holds_for_recursive(void) {
  pthread_mutex_unlock(&recursive);
  pthread_mutex_unlock(&recursive);
}
static int Recursive(void) { return pthread_mutex_trylock(&recursive) + pthread_mutex_lock(&recursive); }

KNOWN void for_tryrdlock(void) { pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock); }
KNOWN void holds_for_tryrdlock(void) { pthread_rwlock_unlock(&rwlock); }
static int Tryrdlock(void) { return pthread_rwlock_tryrdlock(&rwlock); }

KNOWN void for_trywrlock(void) { pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock); }
KNOWN void holds_for_trywrlock(void) { pthread_rwlock_unlock(&rwlock); }
static int Trywrlock(void) { return pthread_rwlock_trywrlock(&rwlock); }

static const struct {
  const char *name, *label;
  int (*try)(void);
  void (*wait)(void), (*let_go)(void);
} cases[] = {{"for_trylock", "mutex", Trylock, for_trylock, holds_for_trylock},
             {"for_mtx_trylock", "mutex", MtxTrylock, for_mtx_trylock, holds_for_mtx_trylock},
             {"for_recursive", "mutex", Recursive, for_recursive, holds_for_recursive},
             {"for_tryrdlock", "rwlock-write", Tryrdlock, for_tryrdlock, holds_for_tryrdlock},
             {"for_trywrlock", "rwlock-read", Trywrlock, for_trywrlock, holds_for_trywrlock}};
static int current;
static uint64_t waited_ns;
static pthread_barrier_t held;

static void* Waiter(void* unused) {
  pthread_barrier_wait(&held);
  const uint64_t start = Now();
  cases[current].wait();
  waited_ns = Now() - start;
  return unused;
}

int main(void) {
  mtx_init(&c11, mtx_plain);
  pthread_barrier_init(&held, NULL, 2);
  for (current = 0; current < (int)(sizeof cases / sizeof *cases); ++current) {
    pthread_t waiter;
    pthread_create(&waiter, NULL, Waiter, NULL);
    if (cases[current].try() != 0) abort();
    pthread_barrier_wait(&held);
    const struct timespec hold = {0, 60000000};
    nanosleep(&hold, NULL);
    cases[current].let_go();
    pthread_join(waiter, NULL);
    printf("waits %s %s 1 %llu\n", cases[current].name, cases[current].label, (unsigned long long)waited_ns);
  }
  return 0;
}
