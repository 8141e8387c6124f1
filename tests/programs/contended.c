// Measures the cost of a contended lock: run it without and with the library alternately, and compare.
//     contended handoff HOLD_NS ROUNDS              from just before the unlock until the waiter has the lock: the quartiles
//     contended throughput THREADS HOLD_NS MS       rounds of all threads, each with the lock held for HOLD_NS
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clocks.h"
#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t hold_ns;

static void Until(uint64_t end_ns) {
  while (Now() < end_ns) {
  }
}

// ---- Hand-off ----

static _Atomic int taken, arriving, done;
static _Atomic uint64_t unlocking_ns;
static int rounds;
static uint64_t* latencies;

static void* Waiter(void* unused) {
  for (int i = 1; i <= rounds; ++i) {
    while (taken != i) {
    }
    arriving = i;
    pthread_mutex_lock(&mutex);
    latencies[i - 1] = Now() - unlocking_ns;
    pthread_mutex_unlock(&mutex);
    done = i;
  }
  return unused;
}
static int Ascending(const void* a, const void* b) {
  const uint64_t x = *(const uint64_t*)a, y = *(const uint64_t*)b;
  return x < y ? -1 : x > y;
}
static void HandOff(void) {
  pthread_t waiter;
  latencies = calloc((size_t)rounds, sizeof *latencies);
  pthread_create(&waiter, NULL, Waiter, NULL);
  for (int i = 1; i <= rounds; ++i) {
    pthread_mutex_lock(&mutex);
    taken = i;
    while (arriving != i) {
    }
    Until(Now() + hold_ns);
    unlocking_ns = Now();
    pthread_mutex_unlock(&mutex);
    while (done != i) {
    }
  }
  pthread_join(waiter, NULL);
  qsort(latencies, (size_t)rounds, sizeof *latencies, Ascending);
  printf("handoff_ns %llu %llu %llu\n", (unsigned long long)latencies[rounds / 4],
         (unsigned long long)latencies[rounds / 2], (unsigned long long)latencies[rounds * 3 / 4]);
}

// ---- Throughput ----

static _Atomic int stop;
static uint64_t turns_held;
static void Turn(uint64_t turns) {
  for (volatile uint64_t i = 0; i < turns; ++i) {
  }
}
static void* Fighter(void* made) {
  uint64_t count = 0;
  for (; !stop; ++count) {
    pthread_mutex_lock(&mutex);
    Turn(turns_held);
    pthread_mutex_unlock(&mutex);
    Turn(turns_held);
  }
  *(uint64_t*)made = count;
  return NULL;
}
static void Throughput(int threads, long ms) {
  // How many turns of the loop last so long: the fastest of some tries.
  uint64_t turn_ps = UINT64_MAX;
  for (int i = 0; i < 20; ++i) {
    const uint64_t start = Now();
    Turn(20000);
    const uint64_t took_ps = (Now() - start) / 20;
    if (took_ps < turn_ps) turn_ps = took_ps;
  }
  turns_held = hold_ns * 1000 / (turn_ps ? turn_ps : 1);
  pthread_t ids[64];
  uint64_t made[64], total = 0;
  for (int i = 0; i < threads; ++i) pthread_create(&ids[i], NULL, Fighter, &made[i]);
  const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
  nanosleep(&t, NULL);
  stop = 1;
  for (int i = 0; i < threads; ++i) {
    pthread_join(ids[i], NULL);
    total += made[i];
  }
  struct timespec cpu;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
  const double cpu_s = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
  printf("rounds %llu per_cpu_second %.0f\n", (unsigned long long)total, (double)total / cpu_s);
}

int main(int argc, char** argv) {
  if (argc == 4 && !strcmp(argv[1], "handoff")) {
    hold_ns = (uint64_t)atol(argv[2]);
    rounds = atoi(argv[3]);
    HandOff();
  } else if (argc == 5 && !strcmp(argv[1], "throughput") && atoi(argv[2]) <= 64) {
    hold_ns = (uint64_t)atol(argv[3]);
    Throughput(atoi(argv[2]), atol(argv[4]));
  } else {
    return 2;
  }
  return 0;
}
