// Threads that wait forever, in slices of 20 ms, each with its own call.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, of_condition = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static pthread_t main_thread;
static int futex_word = 1;

static struct timespec Soon(void) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  const long ns = t.tv_nsec + 20000000;
  return (struct timespec){t.tv_sec + ns / 1000000000, ns % 1000000000};
}

#define SLICES(name, call)              \
  KNOWN void* name(void* unused) {      \
    while (1) {                         \
      const struct timespec t = Soon(); \
      if ((call) == 0) return unused;   \
    }                                   \
  }
SLICES(waits_for_mutex, pthread_mutex_timedlock(&mutex, &t))
SLICES(waits_to_read, pthread_rwlock_timedrdlock(&lock, &t))
SLICES(waits_to_write, pthread_rwlock_timedwrlock(&lock, &t))
SLICES(waits_for_semaphore, sem_timedwait(&semaphore, &t))
SLICES(waits_for_end, pthread_timedjoin_np(main_thread, NULL, &t))
KNOWN void* waits_for_condition(void* unused) {
  pthread_mutex_lock(&of_condition);
  while (1) {
    const struct timespec t = Soon();
    if (pthread_cond_timedwait(&condition, &of_condition, &t) == 0) return unused;
  }
}
KNOWN void* waits_for_futex(void* unused) {
  const struct timespec t = {0, 20000000};
  while (syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 1, &t, NULL, 0) == -1 && errno == ETIMEDOUT) {
  }
  return unused;
}

int main(void) {
  void* (*const waits[])(void*) = {waits_for_mutex, waits_to_read,       waits_to_write, waits_for_semaphore,
                                   waits_for_end,   waits_for_condition, waits_for_futex};
  main_thread = pthread_self();
  sem_init(&semaphore, 0, 0);
  pthread_mutex_lock(&mutex);
  pthread_rwlock_wrlock(&lock);
  for (size_t i = 0; i < sizeof waits / sizeof *waits; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, waits[i], NULL);
  }
  printf("ready\n");
  fflush(stdout);
  while (1) pause();
}
