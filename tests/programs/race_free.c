// Threads that wait for each other with every kind of lock, without a data race: a race detector must report nothing.
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "clocks.h"

enum { kThreads = 2, kRounds = 5 };
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static long turn, done, written;

static void Begin(void) {}

static void* Run(void* argument) {
  const long self = (long)argument;
  pthread_once(&once, Begin);
  pthread_barrier_wait(&barrier);
  for (int round = 0; round < kRounds; ++round) {
    pthread_mutex_lock(&mutex);
    while (turn != self) pthread_cond_wait(&condition, &mutex);
    turn = (turn + 1) % kThreads;
    pthread_cond_broadcast(&condition);
    pthread_mutex_unlock(&mutex);

    pthread_mutex_lock(&other);
    Sleep(1);
    ++done;
    pthread_mutex_unlock(&other);

    pthread_rwlock_wrlock(&lock);
    Sleep(1);
    ++written;
    pthread_rwlock_unlock(&lock);
    pthread_rwlock_rdlock(&lock);
    free(malloc((size_t)(1000 + written)));
    pthread_rwlock_unlock(&lock);
  }
  return NULL;
}

int main(void) {
  pthread_t threads[kThreads];
  pthread_barrier_init(&barrier, NULL, kThreads);
  for (long i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Run, (void*)i);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%ld %ld\n", done, written);
  return 0;
}
