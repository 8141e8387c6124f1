// The least that a preloaded library can do which says of every contended mutex how long it was waited for and how long each
// holder kept others waiting: two readings of the clock for each wait, one for each unlock that ends one, and an entry in a
// word that waiters and holder share. One word for all mutexes, no stacks, no samples, no names: scripts/bench shows it as the
// floor under what Holdfast pays for short holds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <time.h>

enum { kSumBits = 50 };

static int (*real_lock)(pthread_mutex_t*);
static int (*real_unlock)(pthread_mutex_t*);
// How many wait (above kSumBits), and the sum of the moments at which they began.
static _Alignas(128) _Atomic uint64_t waiting;
static __thread volatile uint64_t waited_ns, held_ns;

__attribute__((constructor)) static void Find(void) {
  real_lock = (int (*)(pthread_mutex_t*))dlsym(RTLD_NEXT, "pthread_mutex_lock");
  real_unlock = (int (*)(pthread_mutex_t*))dlsym(RTLD_NEXT, "pthread_mutex_unlock");
}

static uint64_t Now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec) & ((UINT64_C(1) << kSumBits) - 1);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (mutex->__data.__lock == 0) return real_lock(mutex);
  const uint64_t start = Now(), entry = (UINT64_C(1) << kSumBits) + start;
  atomic_fetch_add(&waiting, entry);
  const int result = real_lock(mutex);
  atomic_fetch_sub(&waiting, entry);
  waited_ns += Now() - start;
  return result;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  const uint64_t now = atomic_load_explicit(&waiting, memory_order_relaxed);
  if (now >> kSumBits != 0) held_ns += (now >> kSumBits) * Now() - (now & ((UINT64_C(1) << kSumBits) - 1));
  return real_unlock(mutex);
}
