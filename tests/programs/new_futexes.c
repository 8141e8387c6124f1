// The futex calls of newer kernels, through `syscall`: futex_waitv (5.16), futex_wake and futex_wait (6.7).
//     waits FUNCTION label contentions delay_ns        77: this kernel does not have them
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

enum { kWaitv = 449, kWake = 454, kWait = 455, kPrivate32 = 0x82 };
struct Waiter {
  uint64_t value, address;
  uint32_t flags, reserved;
};

static uint32_t word;
static const unsigned long kAll = 0xffffffff;

KNOWN long waits_for_one(unsigned long value) { return syscall(kWait, &word, value, kAll, kPrivate32, NULL, 0); }
KNOWN long waits_for_many(uint64_t value) {
  struct Waiter waiter = {value, (uintptr_t)&word, kPrivate32, 0};
  return syscall(kWaitv, &waiter, 1, 0, NULL, 0);
}
KNOWN void wakes(void) { syscall(kWake, &word, kAll, 1, kPrivate32); }

static void* Wake(void* argument) {
  for (int i = 0; i < 2; ++i) {
    Sleep(30);
    __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
    wakes();
  }
  return argument;
}

int main(void) {
  waits_for_one(1);  // not its value
  if (errno != EAGAIN) return 77;
  pthread_t thread;
  pthread_create(&thread, NULL, Wake, NULL);
  uint64_t start = Now();
  while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 0) waits_for_one(0);
  printf("waits waits_for_one futex 1 %llu\n", (unsigned long long)(Now() - start));
  start = Now();
  while (__atomic_load_n(&word, __ATOMIC_SEQ_CST) == 1) waits_for_many(1);
  printf("waits waits_for_many futex 1 %llu\n", (unsigned long long)(Now() - start));
  pthread_join(thread, NULL);
  return 0;
}
