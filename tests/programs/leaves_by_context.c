// A handler leaves a contended lock with setcontext, which informs neither libc nor any registered cleanup. It leaves this
// wait and also the one that was interrupted by the first handler, which waited itself. The thread then reuses that stack,
// waits for another lock and ends, as it may.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t other = PTHREAD_MUTEX_INITIALIZER;
static ucontext_t back;
static _Atomic int left, waits;

static pthread_mutex_t of_handler = PTHREAD_MUTEX_INITIALIZER;
static void Waits(int number) {
  (void)number;
  waits = 2;
  pthread_mutex_lock(&of_handler);
}
static void Leaves(int number) {
  (void)number;
  left = 1;
  setcontext(&back);
}

KNOWN void uses_the_stack(void) {
  char garbage[16384];
  memset(garbage, 0x41, sizeof garbage);
  Use(garbage);
}
KNOWN void cleans_up(void* argument) { printf("cleaned up %s\n", (const char*)argument); }
static void* Thread(void* argument) {
  pthread_cleanup_push(cleans_up, "once");
  getcontext(&back);
  if (!left) {
    waits = 1;
    pthread_mutex_lock(&mutex);
  }
  uses_the_stack();
  waits = 3;
  pthread_mutex_lock(&other);
  pthread_mutex_unlock(&other);
  uses_the_stack();
  pthread_exit(argument);
  pthread_cleanup_pop(0);
  return NULL;
}

int main(void) {
  const struct sigaction waiting = {.sa_handler = Waits}, leaving = {.sa_handler = Leaves};
  sigaction(SIGUSR1, &waiting, NULL);
  sigaction(SIGUSR2, &leaving, NULL);
  pthread_t thread;
  pthread_mutex_lock(&mutex);
  pthread_mutex_lock(&other);
  pthread_mutex_lock(&of_handler);
  pthread_create(&thread, NULL, Thread, &left);
  while (waits != 1) Sleep(1);
  Sleep(50);
  for (int next = 2; next <= 3; ++next) {
    pthread_kill(thread, next == 2 ? SIGUSR1 : SIGUSR2);
    while (waits != next) Sleep(1);
    Sleep(50);
  }
  pthread_mutex_unlock(&other);
  void* value;
  pthread_join(thread, &value);
  printf("ended as it may: %d\n", value == &left);
  return 0;
}
