// A writer waits for readers. `slow_read` holds the lock from before the writer arrives until ROUNDS short reads are over; then
// it lets the writer in. `handed_over`: the slow reader leaves first, and the short reader, which came later, keeps the lock.
//     readers_and_writer MODE ROUNDS        waited NANOSECONDS    by the program's own clock
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"
#include "clocks.h"
#include "known.h"

pthread_rwlock_t routes_lock = PTHREAD_RWLOCK_INITIALIZER;
static atomic_int writer, slow_has_it, quick_has_it;

KNOWN void quick_read(void) {
  pthread_rwlock_rdlock(&routes_lock);
  pthread_rwlock_unlock(&routes_lock);
}
KNOWN void write_routes(void) {
  const uint64_t begin = Now();
  pthread_rwlock_wrlock(&routes_lock);
  printf("waited %llu\n", (unsigned long long)(Now() - begin));
  pthread_rwlock_unlock(&routes_lock);
}
static void* Write(void* unused) {
  writer = (int)syscall(SYS_gettid);
  write_routes();
  return unused;
}
static void AwaitWriter(void) {
  while (!writer || !Sleeps(writer)) usleep(100);
  usleep(1000);  // past the first part of its wait, which ends by a deadline
  while (!Sleeps(writer)) usleep(100);
}

static int rounds, is_handed_over;
KNOWN void slow_read(void) {
  pthread_rwlock_rdlock(&routes_lock);
  slow_has_it = 1;
  AwaitWriter();
  if (is_handed_over) {
    Sleep(2);
    while (!quick_has_it) usleep(100);
  } else {
    for (int i = 0; i < rounds; ++i) {
      quick_has_it = 1;
      while (quick_has_it) usleep(100);
      usleep(1000);
    }
    quick_has_it = 2;
  }
  pthread_rwlock_unlock(&routes_lock);
}
static void* ReadForLong(void* unused) {
  slow_read();
  slow_has_it = 2;
  return unused;
}
KNOWN void late_read(void) {
  pthread_rwlock_rdlock(&routes_lock);
  quick_has_it = 1;
  while (slow_has_it != 2) usleep(100);
  Sleep(20);
  pthread_rwlock_unlock(&routes_lock);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  is_handed_over = strcmp(argv[1], "handed_over") == 0;
  rounds = atoi(argv[2]);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, ReadForLong, NULL);
  while (!slow_has_it) usleep(100);
  pthread_create(&threads[1], NULL, Write, NULL);
  AwaitWriter();
  if (is_handed_over) {
    late_read();
  } else {
    while (quick_has_it != 2) {
      if (quick_has_it == 1) quick_read(), quick_has_it = 0;
      usleep(100);
    }
  }
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return 0;
}
