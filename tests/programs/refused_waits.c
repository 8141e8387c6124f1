// Waits that are rejected, because their deadline is invalid, their mutex belongs to another thread or their thread
// cannot be joined, and others that cannot last. None may count as a wait of any length. Prints the result of each call.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>

#include "known.h"

static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, checked;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static sem_t semaphore;

static void Say(const char* call, int result) { printf("%s %d\n", call, result); }
static int ErrnoOf(int result) { return result == 0 ? 0 : errno; }

KNOWN void refused(const struct timespec* deadline) {
  Say("cond_timedwait", pthread_cond_timedwait(&condition, &mutex, deadline));
  Say("cond_clockwait", pthread_cond_clockwait(&condition, &mutex, CLOCK_MONOTONIC, deadline));
  Say("sem_timedwait", ErrnoOf(sem_timedwait(&semaphore, deadline)));
  Say("sem_clockwait", ErrnoOf(sem_clockwait(&semaphore, CLOCK_MONOTONIC, deadline)));
}
KNOWN void refused_locks(const struct timespec* deadline) {
  Say("mutex_timedlock", pthread_mutex_timedlock(&mutex, deadline));
  Say("mutex_clocklock", pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, deadline));
  Say("rwlock_timedrdlock", pthread_rwlock_timedrdlock(&lock, deadline));
  Say("rwlock_timedwrlock", pthread_rwlock_timedwrlock(&lock, deadline));
}

KNOWN void refused_joins(pthread_t detached) {
  Say("join of itself", pthread_join(pthread_self(), NULL));
  Say("join of a detached thread", pthread_join(detached, NULL));
}

static sem_t over;
static void* LastsUntilTheEnd(void* unused) {
  sem_wait(&over);
  return unused;
}

static void* Run(void* unused) {
  pthread_t detached;
  pthread_create(&detached, NULL, LastsUntilTheEnd, NULL);
  pthread_detach(detached);
  refused_joins(detached);
  sem_post(&over);
  static const struct timespec kNoTimes[] = {{0, -1}, {0, 1000000000}};
  // Not LONG_MIN: glibc before 2.34 waits for ever for that moment.
  static const struct timespec kPast[] = {{0, 0}, {-1, 0}, {-(1L << 40), 0}};
  for (int i = 0; i < 2; ++i) refused(&kNoTimes[i]), refused_locks(&kNoTimes[i]);
  for (int i = 0; i < 3; ++i) refused_locks(&kPast[i]);
  Say("cond_wait of another's mutex", pthread_cond_wait(&condition, &checked));
  return unused;
}

int main(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_init(&checked, &attributes);
  sem_init(&semaphore, 0, 0);
  sem_init(&over, 0, 0);
  pthread_mutex_lock(&checked);
  pthread_mutex_lock(&mutex);
  pthread_rwlock_wrlock(&lock);
  pthread_t thread;
  pthread_create(&thread, NULL, Run, NULL);
  pthread_join(thread, NULL);
  return 0;
}
