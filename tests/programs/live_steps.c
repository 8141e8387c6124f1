// For each line on standard input: allocates 100 blocks of 1,000 bytes, keeps 10, and waits once for a mutex that another thread
// holds until the waiter sleeps. Answers "done N"; ends with the input. A line that begins with d starts a deadlock of two
// other threads instead: "stuck" once both sleep in it. A line that begins with z maps 64 GiB that are read and never written, so
// that they need little memory. For tests that read a running program.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
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

static pthread_mutex_t first_mutex = PTHREAD_MUTEX_INITIALIZER, second_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both_hold;
static atomic_int stuck[2];

KNOWN void takes_second(void) {
  pthread_mutex_lock(&first_mutex);
  pthread_barrier_wait(&both_hold);
  stuck[0] = (int)syscall(SYS_gettid);
  pthread_mutex_lock(&second_mutex);
}
KNOWN void takes_first(void) {
  pthread_mutex_lock(&second_mutex);
  pthread_barrier_wait(&both_hold);
  stuck[1] = (int)syscall(SYS_gettid);
  pthread_mutex_lock(&first_mutex);
}
static void* TakeSecond(void* unused) {
  takes_second();
  return unused;
}
static void* TakeFirst(void* unused) {
  takes_first();
  return unused;
}
static void GetStuck(void) {
  pthread_t threads[2];
  pthread_barrier_init(&both_hold, NULL, 2);
  pthread_create(&threads[0], NULL, TakeSecond, NULL);
  pthread_create(&threads[1], NULL, TakeFirst, NULL);
  for (int asleep = 0; asleep < 3;) {
    Sleep(1);
    asleep = stuck[0] && stuck[1] && Sleeps(stuck[0]) && Sleeps(stuck[1]) ? asleep + 1 : 0;
  }
  printf("stuck\n");
  fflush(stdout);
}

// Each huge page is the kernel's page of zeros. Without huge pages only a small part of the memory exists.
static void MapZeros(void) {
  const size_t bytes = (size_t)64 << 30, step = (size_t)2 << 20;
  volatile char* at = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) abort();
  madvise((void*)at, bytes, MADV_HUGEPAGE);
  for (size_t i = 0; i < bytes; i += step) (void)at[i];
  printf("mapped\n");
  fflush(stdout);
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
    if (line[0] == 'd') {
      GetStuck();
      continue;
    }
    if (line[0] == 'z') {
      MapZeros();
      continue;
    }
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
