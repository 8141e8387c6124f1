// A lock of the shape of folly's MicroLock and SharedMutex: some bits of a word, taken by compare-and-swap. A waiter
// spins, sets a wait bit, and sleeps in FUTEX_WAIT_BITSET with a mask of its own; futexes are called through syscall().
//     waits FUNCTION label contentions delay_ns
#define _GNU_SOURCE
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

enum { kHeld = 1, kWaiting = 2, kShared = 4, kSpins = 1000, kHoldMs = 60 };
enum { kWriterMask = 1, kReaderMask = 2 };
static _Atomic uint32_t word;

static void Acquire(uint32_t blocked_by, uint32_t taken, uint32_t mask) {
  for (int spins = 0;; ++spins) {
    uint32_t seen = word;
    if ((seen & blocked_by) == 0) {
      if (atomic_compare_exchange_weak(&word, &seen, seen + taken)) return;
    } else if (spins < kSpins) {
      atomic_thread_fence(memory_order_seq_cst);
    } else if ((seen & kWaiting) != 0 || atomic_compare_exchange_weak(&word, &seen, seen | kWaiting)) {
      syscall(SYS_futex, &word, FUTEX_WAIT_BITSET_PRIVATE, seen | kWaiting, NULL, NULL, mask);
    }
  }
}

KNOWN void waits_to_write(void) { Acquire(~(uint32_t)kWaiting, kHeld, kWriterMask); }
KNOWN void waits_to_read(void) { Acquire(kHeld, kShared, kReaderMask); }
KNOWN void lets_go(uint32_t taken) {
  const uint32_t before = atomic_fetch_sub(&word, taken);
  if ((before & kWaiting) == 0) return;
  atomic_fetch_and(&word, ~(uint32_t)kWaiting);
  syscall(SYS_futex, &word, FUTEX_WAKE_BITSET_PRIVATE, 1 << 30, NULL, NULL, kWriterMask | kReaderMask);
}

struct Wait {
  void (*wait)(void);
  uint64_t ns;
};
static void* RunWait(void* argument) {
  struct Wait* wait = argument;
  const uint64_t before = Now();
  wait->wait();
  wait->ns = Now() - before;
  return NULL;
}

static void WaitWhileHeld(const char* name, void (*wait)(void), uint32_t held, uint32_t taken) {
  struct Wait one = {wait, 0};
  word = held;
  pthread_t waiter;
  pthread_create(&waiter, NULL, RunWait, &one);
  while ((word & kWaiting) == 0) Sleep(0);
  Sleep(kHoldMs);
  lets_go(held);
  pthread_join(waiter, NULL);
  lets_go(taken);
  printf("waits %s futex 1 %llu\n", name, (unsigned long long)one.ns);
}

static void* SleepsAWhile(void* argument) {
  Sleep(kHoldMs);
  return argument;
}

int main(void) {
  pthread_t first;  // the first wait of a process makes its table
  pthread_create(&first, NULL, SleepsAWhile, NULL);
  pthread_join(first, NULL);
  WaitWhileHeld("waits_to_write", waits_to_write, kHeld, kHeld);
  WaitWhileHeld("waits_to_read", waits_to_read, kHeld, kShared);
  return 0;
}
