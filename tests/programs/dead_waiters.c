// Threads that end silently during a wait: by the system call exit in a signal handler, or by jumping out of the wait and
// ending. Then the culprit holds the mutex for a while without a waiter, and afterwards with one real victim.
//     waits real_victim mutex contentions delay_ns
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static __thread sigjmp_buf out;
static volatile int how;
static volatile int coming;  // a thread is just about to wait

static void AwaitComing(void) {
  while (!coming) Sleep(1);
  coming = 0;
}
static void OnSignal(int number) {
  (void)number;
  if (how == 1) siglongjmp(out, 1);
  syscall(SYS_exit, 0);
}

KNOWN void dies_in_the_wait(void) {
  coming = 1;
  pthread_mutex_lock(&mutex);
}
static void* Dead(void* argument) {
  if (how == 2) {
    pthread_mutex_lock(&mutex);
    coming = 1;
    pthread_cond_wait(&condition, &mutex);
  } else if (sigsetjmp(out, 1) == 0) {
    dies_in_the_wait();
  }
  return argument;
}

static uint64_t waited;
KNOWN void real_victim(void) { pthread_mutex_lock(&mutex); }
static void* Victim(void* argument) {
  coming = 1;
  const uint64_t start = Now();
  real_victim();
  waited = Now() - start;
  pthread_mutex_unlock(&mutex);
  return argument;
}
KNOWN void unlocks_for_nobody(void) { pthread_mutex_unlock(&mutex); }
KNOWN void culprit_unlocks(void) { pthread_mutex_unlock(&mutex); }

int main(void) {
  struct sigaction action = {.sa_handler = OnSignal};
  sigaction(SIGUSR1, &action, NULL);
  uint64_t total = 0;
  pthread_t thread;
  for (how = 0; how < 3; ++how) {
    if (how < 2) pthread_mutex_lock(&mutex);
    pthread_create(&thread, NULL, Dead, NULL);
    AwaitComing();
    Sleep(30);
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, NULL);
    if (how == 2) {
      pthread_cond_signal(&condition);  // which the dead one cannot hear
      pthread_mutex_lock(&mutex);
    }
    for (int i = 0; i < 3; ++i) {
      Sleep(100);  // held, and nobody waits
      unlocks_for_nobody();
      pthread_mutex_lock(&mutex);
    }
    pthread_create(&thread, NULL, Victim, NULL);
    AwaitComing();
    Sleep(50);
    culprit_unlocks();
    pthread_join(thread, NULL);
    total += waited;
  }
  printf("waits real_victim mutex 3 %llu\n", (unsigned long long)total);
  return 0;
}
