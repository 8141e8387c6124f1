// Waits from which threads do not return: a handler jumps out, or ends the thread. Such waits must not be charged to later
// holders of the lock. Each phase has its own mutex; then its culprit holds it for a while without a waiter, and afterwards
// with one real victim.
//     waits real_victim mutex contentions delay_ns
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static __thread sigjmp_buf out;
static volatile int how;

static void OnSignal(int number) {
  (void)number;
  if (how == 0) siglongjmp(out, 1);
  pthread_exit(NULL);
}

KNOWN void leaves_the_wait(void) { pthread_mutex_lock(&mutex); }
KNOWN void waits_elsewhere(void) { pthread_mutex_lock(&other); }
static pthread_barrier_t left;
static void* Leaver(void* argument) {
  if (sigsetjmp(out, 1) == 0) {
    leaves_the_wait();
    abort();
  }
  waits_elsewhere();  // by which it is noticed
  pthread_mutex_unlock(&other);
  pthread_barrier_wait(&left);
  return argument;
}
static void* Ender(void* argument) {
  leaves_the_wait();
  return argument;
}

KNOWN void real_victim(void) { pthread_mutex_lock(&mutex); }
static uint64_t waited;
static void* Victim(void* argument) {
  const uint64_t start = Now();
  real_victim();
  waited = Now() - start;
  pthread_mutex_unlock(&mutex);
  return argument;
}
KNOWN void culprit_unlocks(void) { pthread_mutex_unlock(&mutex); }

int main(void) {
  struct sigaction action = {.sa_handler = OnSignal};
  sigaction(SIGUSR1, &action, NULL);
  pthread_barrier_init(&left, NULL, 2);
  uint64_t total = 0;
  pthread_t thread;
  for (how = 0; how < 2; ++how) {
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&other);
    pthread_create(&thread, NULL, how == 0 ? Leaver : Ender, NULL);
    Sleep(30);
    pthread_kill(thread, SIGUSR1);
    Sleep(30);
    pthread_mutex_unlock(&other);
    if (how == 0) pthread_barrier_wait(&left);
    pthread_join(thread, NULL);
    Sleep(100);  // held, and nobody waits
    pthread_create(&thread, NULL, Victim, NULL);
    Sleep(30);
    culprit_unlocks();
    pthread_join(thread, NULL);
    total += waited;
  }
  printf("waits real_victim mutex 2 %llu\n", (unsigned long long)total);
  return 0;
}
