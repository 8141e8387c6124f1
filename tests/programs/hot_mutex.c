// A culprit holds a mutex while victims wait for it. The victims' own clocks say how often and how long they waited. The
// culprit releases the mutex only after the kernel says that every victim sleeps, so each round is exactly kVictims waits.
//     waits FUNCTION label contentions delay_ns least_ns        least_ns: the part of the delay in which all slept
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"
#include "clocks.h"
#include "known.h"

enum { kVictims = 3, kRounds = 30 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start, end;
static _Atomic int thread_ids[kVictims];
static _Atomic uint64_t waited_ns;
static uint64_t held_asleep_ns;  // for how long the mutex was held while all victims slept

KNOWN void victim_waits(void) { pthread_mutex_lock(&mutex); }
KNOWN void culprit_holds(void) {
  pthread_mutex_lock(&mutex);
  pthread_barrier_wait(&start);
  struct timespec step = {0, 1000000};
  for (;;) {  // asleep three times in a row: in the lock, no longer on the way to it
    nanosleep(&step, NULL);
    int asleep = 1;
    for (int look = 0; look < 3 && asleep; ++look) {
      for (int i = 0; i < kVictims; ++i) asleep = asleep && thread_ids[i] && Sleeps(thread_ids[i]);
      nanosleep(&step, NULL);
    }
    if (asleep) break;
  }
  const uint64_t asleep = Now();
  step.tv_nsec = 3000000;
  nanosleep(&step, NULL);
  held_asleep_ns += Now() - asleep;
  pthread_mutex_unlock(&mutex);
}

// One wait before those that are counted: the first sample of a process makes its table and starts the exporter, which
// costs that wait some milliseconds, and other threads' waits meanwhile have no table to go to.
KNOWN void warms_up(void) { pthread_mutex_lock(&mutex); }
static void* WarmUp(void* argument) {
  thread_ids[0] = (int)syscall(SYS_gettid);
  warms_up();
  pthread_mutex_unlock(&mutex);
  return argument;
}

static void* Victim(void* argument) {
  thread_ids[(size_t)argument] = (int)syscall(SYS_gettid);
  for (int round = 0; round < kRounds; ++round) {
    pthread_barrier_wait(&start);
    const uint64_t before = Now();
    victim_waits();
    waited_ns += Now() - before;
    pthread_mutex_unlock(&mutex);
    pthread_barrier_wait(&end);
  }
  return NULL;
}

int main(void) {
  pthread_t first;
  pthread_mutex_lock(&mutex);
  pthread_create(&first, NULL, WarmUp, NULL);
  struct timespec step = {0, 1000000};
  for (int asleep = 0; asleep < 5; asleep = thread_ids[0] && Sleeps(thread_ids[0]) ? asleep + 1 : 0)
    nanosleep(&step, NULL);
  pthread_mutex_unlock(&mutex);
  pthread_join(first, NULL);
  thread_ids[0] = 0;
  pthread_barrier_init(&start, NULL, kVictims + 1);
  pthread_barrier_init(&end, NULL, kVictims + 1);
  pthread_t victims[kVictims];
  for (size_t i = 0; i < kVictims; ++i) pthread_create(&victims[i], NULL, Victim, (void*)i);
  for (int round = 0; round < kRounds; ++round) {
    culprit_holds();
    pthread_barrier_wait(&end);
  }
  for (size_t i = 0; i < kVictims; ++i) pthread_join(victims[i], NULL);
  printf("waits victim_waits %d %llu %llu\n", kVictims * kRounds, (unsigned long long)waited_ns,
         (unsigned long long)(kVictims * held_asleep_ns));
  return 0;
}
