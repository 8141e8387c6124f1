// Locks that are held while others wait for them and time out, each with its own call. The holder releases the lock after
// the last waiter has given up.
//     held NAME LEAST_NS MOST_NS    how long it was held while somebody waited, and how long it was held at all
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

enum { kMs = 1000000, kSlices = 8 };

pthread_mutex_t timed_mutex = PTHREAD_MUTEX_INITIALIZER, clocked_mutex = PTHREAD_MUTEX_INITIALIZER,
                sliced_mutex = PTHREAD_MUTEX_INITIALIZER;
mtx_t c11_mutex;
pthread_rwlock_t read_lock = PTHREAD_RWLOCK_INITIALIZER, write_lock = PTHREAD_RWLOCK_INITIALIZER,
                 clocked_lock = PTHREAD_RWLOCK_INITIALIZER;
int futex_word = 1;

static struct timespec After(clockid_t clock, long ms) {
  struct timespec t;
  clock_gettime(clock, &t);
  const long ns = t.tv_nsec + ms * kMs;
  return (struct timespec){t.tv_sec + ns / 1000000000, ns % 1000000000};
}

KNOWN void wait_timed(void) {
  const struct timespec t = After(CLOCK_REALTIME, 20);
  if (pthread_mutex_timedlock(&timed_mutex, &t) != ETIMEDOUT) abort();
}
KNOWN void wait_clocked(void) {
  const struct timespec t = After(CLOCK_MONOTONIC, 20);
  if (pthread_mutex_clocklock(&clocked_mutex, CLOCK_MONOTONIC, &t) != ETIMEDOUT) abort();
}
KNOWN void wait_in_slices(void) {
  for (int i = 0; i < kSlices; ++i) {
    const struct timespec t = After(CLOCK_MONOTONIC, 3);
    if (pthread_mutex_clocklock(&sliced_mutex, CLOCK_MONOTONIC, &t) != ETIMEDOUT) abort();
  }
}
KNOWN void wait_c11(void) {
  const struct timespec t = After(CLOCK_REALTIME, 20);
  if (mtx_timedlock(&c11_mutex, &t) != thrd_timedout) abort();
}
KNOWN void wait_to_read(void) {
  const struct timespec t = After(CLOCK_REALTIME, 20);
  if (pthread_rwlock_timedrdlock(&write_lock, &t) != ETIMEDOUT) abort();
}
KNOWN void wait_to_write(void) {
  const struct timespec t = After(CLOCK_REALTIME, 20);
  if (pthread_rwlock_timedwrlock(&read_lock, &t) != ETIMEDOUT) abort();
}
KNOWN void wait_to_write_clocked(void) {
  const struct timespec t = After(CLOCK_MONOTONIC, 20);
  if (pthread_rwlock_clockwrlock(&clocked_lock, CLOCK_MONOTONIC, &t) != ETIMEDOUT) abort();
}
KNOWN void wait_futex(void) {
  const struct timespec t = {0, 20 * kMs};
  if (syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 1, &t, NULL, 0) != -1 || errno != ETIMEDOUT) abort();
}

static void* Run(void* function) {
  ((void (*)(void))function)();
  return NULL;
}
// The holder is this thread.
static void While(void (*waits)(void)) {
  pthread_t thread;
  pthread_create(&thread, NULL, Run, (void*)waits);
  pthread_join(thread, NULL);
}
static void Held(const char* name, uint64_t since, int waited_ms) {
  printf("held %s %d %llu\n", name, waited_ms * kMs, (unsigned long long)(Now() - since));
}

int main(void) {
  mtx_init(&c11_mutex, mtx_timed);
  for (int i = 0; i < 2; ++i) {
    uint64_t since = Now();
    pthread_mutex_lock(&timed_mutex), While(wait_timed), pthread_mutex_unlock(&timed_mutex);
    Held("timed_mutex", since, 20), since = Now();
    pthread_mutex_lock(&clocked_mutex), While(wait_clocked), pthread_mutex_unlock(&clocked_mutex);
    Held("clocked_mutex", since, 20), since = Now();
    pthread_mutex_lock(&sliced_mutex), While(wait_in_slices), pthread_mutex_unlock(&sliced_mutex);
    Held("sliced_mutex", since, kSlices * 3), since = Now();
    mtx_lock(&c11_mutex), While(wait_c11), mtx_unlock(&c11_mutex);
    Held("c11_mutex", since, 20), since = Now();
    pthread_rwlock_wrlock(&write_lock), While(wait_to_read), pthread_rwlock_unlock(&write_lock);
    Held("write_lock", since, 20), since = Now();
    pthread_rwlock_rdlock(&read_lock), While(wait_to_write), pthread_rwlock_unlock(&read_lock);
    Held("read_lock", since, 20), since = Now();
    pthread_rwlock_rdlock(&clocked_lock), While(wait_to_write_clocked), pthread_rwlock_unlock(&clocked_lock);
    Held("clocked_lock", since, 20), since = Now();
    While(wait_futex), syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    Held("futex_word", since, 20);
  }
  return 0;
}
