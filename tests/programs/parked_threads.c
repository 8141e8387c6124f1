// A server that parks each idle thread at a mutex, which main holds while it waits for input; and a lock of a thread's own.
//     parked_threads          two threads are parked
//     parked_threads own      a thread waits for a futex in its own static memory
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"
#include "known.h"

pthread_mutex_t parking[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static __thread int own_word = 1;
static volatile int ids[2];

KNOWN void wait_until_started(int thread) {
  pthread_mutex_lock(&parking[thread]);
  pthread_mutex_unlock(&parking[thread]);
}
static void* Serve(void* number) {
  const int thread = (int)(size_t)number;
  ids[thread] = (int)syscall(SYS_gettid);
  while (1) wait_until_started(thread);
  return NULL;
}
KNOWN void* wait_for_own(void* unused) {
  ids[0] = (int)syscall(SYS_gettid);
  while (1) syscall(SYS_futex, &own_word, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
  return unused;
}

int main(int argc, char** argv) {
  (void)argv;
  const int threads = argc == 1 ? 2 : 1;
  for (int i = 0; i < threads; ++i) {
    pthread_t thread;
    pthread_mutex_lock(&parking[i]);
    pthread_create(&thread, NULL, argc == 1 ? Serve : wait_for_own, (void*)(size_t)i);
    while (!ids[i] || !Sleeps(ids[i])) usleep(1000);
  }
  printf("ready\n");
  fflush(stdout);
  struct epoll_event event;
  const int set = epoll_create1(0);
  while (1) epoll_wait(set, &event, 1, -1);
}
