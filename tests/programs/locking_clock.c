// Preloaded: a clock that is a day behind and allocates under a lock of its own, like libfaketime's.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&mutex);
  void* volatile block = malloc(100);
  const int result = (int)syscall(SYS_clock_gettime, clock, now);
  free(block);
  pthread_mutex_unlock(&mutex);
  if (result == 0) now->tv_sec -= 24 * 3600;
  return result;
}
