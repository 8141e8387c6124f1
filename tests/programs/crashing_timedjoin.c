// Preloaded: the program crashes in pthread_timedjoin_np, as it may with glibc before 2.28.
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>

int pthread_timedjoin_np(pthread_t thread, void** value, const struct timespec* deadline) {
  (void)thread;
  (void)value;
  (void)deadline;
  __builtin_trap();
}
