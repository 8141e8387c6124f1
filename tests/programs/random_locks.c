// Threads that do random things with a few locks of several kinds. Each wait must have one holder, or none.
//     random_locks SEED THREADS MILLISECONDS    on a busy machine longer: each thread does at least 200 things
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

enum { kLocks = 3, kLeast = 200 };
static pthread_mutex_t plain[kLocks], recursive[kLocks], adaptive[kLocks];
static pthread_rwlock_t rwlocks[kLocks];
static pthread_spinlock_t spins[kLocks];
static pthread_mutex_t of_condition = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static uint64_t seed, end_ns;

static struct timespec In(clockid_t clock, uint64_t us) {
  struct timespec t;
  clock_gettime(clock, &t);
  const uint64_t ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + us * 1000;
  return (struct timespec){(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
}
static uint32_t Random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}
static void Work(uint64_t* state) {
  const uint32_t how = Random(state) % 16;
  if (how == 0) {
    const struct timespec t = {0, 1000 * (50 + Random(state) % 1500)};
    nanosleep(&t, NULL);
  } else {
    const uint64_t until = Now() + Random(state) % (how < 12 ? 3000 : 60000);
    while (Now() < until) {
    }
  }
}

static void Mutex(pthread_mutex_t* mutex, uint64_t* state) {
  struct timespec deadline;
  switch (Random(state) % 4) {
    case 0:
      if (pthread_mutex_trylock(mutex)) return;
      break;
    case 1:
      deadline = In(CLOCK_REALTIME, Random(state) % 1000);
      if (pthread_mutex_timedlock(mutex, &deadline)) return;
      break;
    case 2:
      deadline = In(CLOCK_MONOTONIC, Random(state) % 1000);
      if (pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &deadline)) return;
      break;
    default:
      pthread_mutex_lock(mutex);
  }
  Work(state);
  pthread_mutex_unlock(mutex);
}

static void* Run(void* number) {
  uint64_t state = seed * 1000 + (uint64_t)(uintptr_t)number;
  for (int i = 0; i < 10; ++i) Random(&state);
  for (int done = 0; done < kLeast || Now() < end_ns; ++done) {
    const size_t which = Random(&state) % kLocks;
    struct timespec deadline;
    switch (Random(&state) % 8) {
      case 0:
      case 1:
        Mutex(&plain[which], &state);
        break;
      case 2:
        Mutex(&adaptive[which], &state);
        break;
      case 3:
        pthread_mutex_lock(&recursive[which]);
        Mutex(&recursive[which], &state);
        Work(&state);
        pthread_mutex_unlock(&recursive[which]);
        break;
      case 4:
        pthread_rwlock_rdlock(&rwlocks[which]);
        Work(&state);
        pthread_rwlock_unlock(&rwlocks[which]);
        break;
      case 5:
        deadline = In(CLOCK_REALTIME, Random(&state) % 1000);
        if (pthread_rwlock_timedwrlock(&rwlocks[which], &deadline)) break;
        Work(&state);
        pthread_rwlock_unlock(&rwlocks[which]);
        break;
      case 6:
        pthread_spin_lock(&spins[which]);
        for (volatile int i = 0; i < 500; ++i) {
        }
        pthread_spin_unlock(&spins[which]);
        break;
      default:
        pthread_mutex_lock(&of_condition);
        if (Random(&state) % 2) {
          deadline = In(CLOCK_REALTIME, 100 + Random(&state) % 2000);
          pthread_cond_timedwait(&condition, &of_condition, &deadline);
        } else {
          pthread_cond_broadcast(&condition);
        }
        Work(&state);
        pthread_mutex_unlock(&of_condition);
    }
    Work(&state);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  seed = (uint64_t)atol(argv[1]);
  const int threads = atoi(argv[2]);
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  for (int i = 0; i < kLocks; ++i) {
    pthread_mutex_init(&plain[i], NULL);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive[i], &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&adaptive[i], &attributes);
    pthread_rwlock_init(&rwlocks[i], NULL);
    pthread_spin_init(&spins[i], PTHREAD_PROCESS_PRIVATE);
  }
  end_ns = Now() + (uint64_t)atol(argv[3]) * 1000000;
  pthread_t ids[64];
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, Run, (void*)(uintptr_t)i);
  for (int i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  return 0;
}
