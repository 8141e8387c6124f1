// Joins with clocks and deadlines that libc may reject, for a thread that has ended and for one that has not. Prints each
// result.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

#define SAY(call)                                 \
  do {                                            \
    void* value = NULL;                           \
    const int result = (call);                    \
    printf("%s: %d, %p\n", #call, result, value); \
    fflush(stdout);                               \
  } while (0)

static _Atomic int id, over;
static void* Thread(void* argument) {
  id = (int)syscall(SYS_gettid);
  while (!over) Sleep(1);
  return argument;
}
static pthread_t Start(int ends) {
  pthread_t thread;
  id = 0;
  over = ends;
  pthread_create(&thread, NULL, Thread, (void*)4242);
  while (id == 0 || (ends && syscall(SYS_tgkill, getpid(), id, 0) == 0)) Sleep(1);
  return thread;
}

static const struct timespec past = {1, 0}, negative = {1, -1}, too_large = {1, 1000000000};

int main(void) {
  pthread_t ended = Start(1);
  SAY(pthread_clockjoin_np(ended, &value, CLOCK_PROCESS_CPUTIME_ID, &past));
  SAY(pthread_clockjoin_np(ended, &value, 99, NULL));
  SAY(pthread_clockjoin_np(ended, &value, CLOCK_MONOTONIC, &past));
  ended = Start(1);
  SAY(pthread_clockjoin_np(ended, &value, CLOCK_REALTIME, NULL));
  const struct timespec* const odd[] = {&negative, &too_large};
  for (int i = 0; i < 2; ++i) {
    ended = Start(1);
    int joined;
    SAY(joined = pthread_clockjoin_np(ended, &value, CLOCK_MONOTONIC, odd[i]));
    if (joined != 0) SAY(pthread_join(ended, &value));
    ended = Start(1);
    SAY(joined = pthread_timedjoin_np(ended, &value, odd[i]));
    if (joined != 0) SAY(pthread_join(ended, &value));
  }
  pthread_t lives = Start(0);
  SAY(pthread_clockjoin_np(lives, &value, 99, &past));
  SAY(pthread_clockjoin_np(lives, &value, CLOCK_MONOTONIC, &past));
  SAY(pthread_timedjoin_np(lives, &value, &past));
  over = 1;
  SAY(pthread_join(lives, &value));
  return 0;
}
