// Makes the library use all its system calls: samples of many stacks, waits, threads, a forked child, a snapshot signal, an
// exit. For tests with filters.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

KNOWN void* allocates(void) { return malloc(100); }

// Another stack for each number.
KNOWN void Descend(unsigned number) {
  if (number == 0) {
    Use(allocates());
  } else if (number % 2 == 0) {
    Descend(number / 2);
  } else {
    Descend((number - 1) / 2);
    Use(&number);
  }
}

static void* Waits(void* argument) {
  for (int i = 0; i < 20; ++i) {
    pthread_mutex_lock(&mutex);
    usleep(1000);
    pthread_mutex_unlock(&mutex);
  }
  return argument;
}

int main(void) {
  for (unsigned i = 0; i < 20000; ++i) Descend(i);
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, Waits, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  raise(SIGWINCH);
  const pid_t child = fork();
  if (child == 0) {
    Use(allocates());
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  puts(status == 0 ? "done" : "the child was killed");
  return status != 0;
}
