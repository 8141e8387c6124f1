// The first sample of the process is taken by many threads in the same instant: each waits once for a mutex that main
// holds until the kernel says that all of them sleep. Nothing else is sampled at the usual heap interval.
//     first_waits            waits FUNCTION contentions delay_ns
//     first_waits early      one thread, and main lets go while that is still preparing its wait: it finds the mutex free
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

enum { kThreads = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static _Atomic int ready, go;
static _Atomic int thread_ids[kThreads];
static _Atomic uint64_t waited_ns;

static int Sleeps(int thread) {
  char path[64], text[512];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", thread);
  const int fd = open(path, O_RDONLY);
  const ssize_t length = read(fd, text, sizeof text - 1);
  close(fd);
  if (length <= 0) return 0;
  text[length] = 0;
  const char* after_name = strrchr(text, ')');
  return after_name && after_name[2] == 'S';
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

int main(int argc, char** argv) {
  if (argc == 2 && !strcmp(argv[1], "early")) return LetGoEarly(), 0;
  pthread_t threads[kThreads];
  pthread_mutex_lock(&mutex);
  for (size_t i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Wait, (void*)i);
  const struct timespec step = {0, 1000000};
  while (ready != kThreads) nanosleep(&step, NULL);
  go = 1;
  for (int looks = 0; looks < 50; ++looks) {  // asleep so often in a row: in the lock, no longer on the way to it
    nanosleep(&step, NULL);
    for (int i = 0; i < kThreads; ++i) looks = Sleeps(thread_ids[i]) ? looks : 0;
  }
  pthread_mutex_unlock(&mutex);
  for (size_t i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("waits waits_first %d %llu\n", kThreads, (unsigned long long)waited_ns);
  return 0;
}
