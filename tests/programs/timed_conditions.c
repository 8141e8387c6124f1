// Threads that wait for a condition for a random time, while it is signalled about as often as they time out: with the mutex
// held and without.
//     timed_conditions SEED THREADS MILLISECONDS
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static uint64_t seed, end_ns;

static uint32_t Random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33);
}
static void Work(uint64_t* state) {
  const uint32_t how = Random(state) % 16;
  if (how == 0) {
    const struct timespec t = {0, 1000 * (50 + Random(state) % 300)};
    nanosleep(&t, NULL);
  } else {
    const uint64_t until = Now() + Random(state) % (how < 12 ? 3000 : 60000);
    while (Now() < until) {
    }
  }
}
static void Signal(uint64_t* state) {
  if (Random(state) % 4) {
    pthread_cond_signal(&condition);
  } else {
    pthread_cond_broadcast(&condition);
  }
}
static void Wait(uint64_t* state) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  const uint64_t at = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + 20000 + Random(state) % 200000;
  t = (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
  pthread_cond_timedwait(&condition, &mutex, &t);
}

static void* Run(void* number) {
  uint64_t state = seed * 1000 + (uint64_t)(uintptr_t)number;
  for (int i = 0; i < 10; ++i) Random(&state);
  while (Now() < end_ns) {
    const uint32_t what = Random(&state) % 8;
    if (what == 0) {
      Signal(&state);
    } else {
      pthread_mutex_lock(&mutex);
      if (what < 4) {
        Signal(&state);
      } else {
        Wait(&state);
      }
      Work(&state);
      pthread_mutex_unlock(&mutex);
    }
    Work(&state);
  }
  return NULL;
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  seed = (uint64_t)atol(argv[1]);
  const int threads = atoi(argv[2]);
  end_ns = Now() + (uint64_t)atol(argv[3]) * 1000000;
  pthread_t ids[64];
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, Run, (void*)(uintptr_t)i);
  for (int i = 0; i < threads; ++i) pthread_join(ids[i], NULL);
  return 0;
}
