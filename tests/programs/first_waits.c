// Many threads take the first sample of the process at the same moment: each waits once for a mutex that main holds until
// the kernel says that all of them sleep. Nothing else is sampled at the usual heap interval.
//     first_waits            waits FUNCTION contentions delay_ns
//     first_waits early      one thread; main releases the mutex while the thread prepares its wait, so it finds it free
//     first_waits shared     a reader waits for a writer, and releases the lock after others have read for long without a
//                            wait; somebody waits for the mutex the whole time
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "asleep.h"
#include "clocks.h"
#include "known.h"

enum { kThreads = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int ready, go;
static _Atomic int thread_ids[kThreads];
static _Atomic uint64_t waited_ns;

// Asleep so often in a row: in the lock, no longer on the way to it.
static void AwaitSleep(int threads) {
  for (int looks = 0; looks < 50; ++looks) {
    Sleep(1);
    for (int i = 0; i < threads; ++i) looks = Sleeps(thread_ids[i]) ? looks : 0;
  }
}

KNOWN void waits_first(void) { pthread_mutex_lock(&mutex); }

static void* Wait(void* argument) {
  thread_ids[(size_t)argument] = (int)syscall(SYS_gettid);
  ++ready;
  while (!go) continue;
  const uint64_t before = Now();
  waits_first();
  waited_ns += Now() - before;
  pthread_mutex_unlock(&mutex);
  return NULL;
}

static void LetGoEarly(void) {
  pthread_t thread;
  go = 1;
  pthread_mutex_lock(&mutex);
  pthread_create(&thread, NULL, Wait, NULL);
  while (!ready) continue;
  for (const uint64_t since = Now(); Now() < since + 100000;) continue;
  pthread_mutex_unlock(&mutex);
  pthread_join(thread, NULL);
}

static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static _Atomic int reads, others_have_read;
static void* Read(void* argument) {
  thread_ids[1] = (int)syscall(SYS_gettid);
  ++ready;
  pthread_rwlock_rdlock(&shared);
  reads = 1;
  while (!others_have_read) continue;
  pthread_rwlock_unlock(&shared);
  return argument;
}
static void LetGoLate(void) {
  pthread_t waiter, reader;
  go = 1;
  pthread_mutex_lock(&mutex);
  pthread_rwlock_wrlock(&shared);
  pthread_create(&waiter, NULL, Wait, NULL);
  while (ready != 1) continue;
  AwaitSleep(1);
  pthread_create(&reader, NULL, Read, NULL);
  while (ready != 2 || !Sleeps(thread_ids[1])) continue;  // briefly: long waits are counted at once
  pthread_rwlock_unlock(&shared);
  while (!reads) continue;
  for (int i = 0; i < 1000; ++i) {
    pthread_rwlock_rdlock(&shared);
    pthread_rwlock_unlock(&shared);
  }
  others_have_read = 1;
  pthread_join(reader, NULL);
  pthread_mutex_unlock(&mutex);
  pthread_join(waiter, NULL);
}

int main(int argc, char** argv) {
  if (argc == 2 && !strcmp(argv[1], "shared")) return LetGoLate(), 0;
  if (argc == 2 && !strcmp(argv[1], "early")) return LetGoEarly(), 0;
  pthread_t threads[kThreads];
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Wait, (void*)i);
  while (ready != kThreads) Sleep(1);
  go = 1;
  AwaitSleep(kThreads);
  pthread_mutex_unlock(&mutex);
  for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("waits waits_first %d %llu\n", kThreads, (unsigned long long)waited_ns);
  return 0;
}
