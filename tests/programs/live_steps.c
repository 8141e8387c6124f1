// For each line on standard input: 100 blocks of 1,000 bytes, of which 10 stay, and one wait for a mutex that another thread
// holds until the waiter sleeps. Answers "done N", ends with the input. For tests of what is read while a program runs.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"
#include "clocks.h"
#include "known.h"

static pthread_mutex_t step_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t held;
static int main_thread;

KNOWN void* step_allocates(void) { return malloc(1000); }
KNOWN void step_waits(void) { pthread_mutex_lock(&step_mutex); }
KNOWN void step_holds(void) {
  pthread_mutex_lock(&step_mutex);
  pthread_barrier_wait(&held);
  for (int asleep = 0; asleep < 3;) {  // three times in a row: in the lock, no longer on the way to it
    Sleep(1);
    asleep = Sleeps(main_thread) ? asleep + 1 : 0;
  }
  pthread_mutex_unlock(&step_mutex);
}

static void* Hold(void* unused) {
  step_holds();
  return unused;
}

int main(void) {
  static char line[100];
  int lines = 0;
  main_thread = (int)syscall(SYS_gettid);
  pthread_barrier_init(&held, NULL, 2);
  setvbuf(stdin, NULL, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    for (int i = 0; i < 100; ++i) {
      void* block = step_allocates();
      if (i % 10) free(block);
    }
    pthread_t holder;
    pthread_create(&holder, NULL, Hold, NULL);
    pthread_barrier_wait(&held);
    step_waits();
    pthread_mutex_unlock(&step_mutex);
    pthread_join(holder, NULL);
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
