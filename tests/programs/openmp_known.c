// One thread of an OpenMP program waits for the other in each of its constructs, for a length that the waiter measures.
//     waits FUNCTION LABEL contentions delay_ns       0 0 for the other thread
//     holds FUNCTION                                  who makes it wait
#define _GNU_SOURCE
#include <omp.h>
#include <stdatomic.h>
#include <string.h>

#include "clocks.h"
#include "known.h"

enum { kHoldMs = 30 };
static _Atomic int held, coming;
static uint64_t waited;
static omp_lock_t lock;
static omp_nest_lock_t nest_lock;
static volatile int sink;

static void HoldUntilTheOtherCame(void) {
  held = 1;
  while (!coming) Sleep(0);
  Sleep(kHoldMs);
}

KNOWN void holds_critical(void) {
#pragma omp critical
  HoldUntilTheOtherCame();
}
KNOWN void waits_critical(void) {
#pragma omp critical
  sink = 1;
}
KNOWN void holds_named(void) {
#pragma omp critical(updates)
  HoldUntilTheOtherCame();
}
KNOWN void waits_named(void) {
#pragma omp critical(updates)
  sink = 2;
}
KNOWN void holds_lock(void) {
  omp_set_lock(&lock);
  HoldUntilTheOtherCame();
  omp_unset_lock(&lock);
}
KNOWN void waits_lock(void) {
  omp_set_lock(&lock);
  omp_unset_lock(&lock);
}
KNOWN void holds_nest_lock(void) {
  omp_set_nest_lock(&nest_lock);
  omp_set_nest_lock(&nest_lock);
  HoldUntilTheOtherCame();
  omp_unset_nest_lock(&nest_lock);
  Sleep(kHoldMs);
  omp_unset_nest_lock(&nest_lock);
}
KNOWN void waits_nest_lock(void) {
  omp_set_nest_lock(&nest_lock);
  omp_unset_nest_lock(&nest_lock);
}
KNOWN void holds_barrier(void) {
  HoldUntilTheOtherCame();
#pragma omp barrier
}
KNOWN void waits_barrier(void) {
#pragma omp barrier
  sink = 3;
}
KNOWN void takes_turns(void) {
#pragma omp ordered
  sink = 5;
}
KNOWN void holds_ordered(void) {
#pragma omp ordered
  HoldUntilTheOtherCame();
}
KNOWN void waits_ordered(void) {
#pragma omp ordered
  sink = 4;
}

static void WaitFor(void (*wait)(void)) {
  while (!held) Sleep(0);
  const uint64_t start = Now();
  coming = 1;
  wait();
  waited = Now() - start;
}

static void Both(const char* waiter, const char* label, const char* holder, void (*hold)(void), void (*wait)(void)) {
  held = coming = 0;
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num() == 0)
      hold();
    else
      WaitFor(wait);
  }
  printf("waits %s %s 1 %llu\n", waiter, label, (unsigned long long)waited);
  printf("waits %s %s 0 0\n", holder, label);
  if (strcmp(label, "custom") == 0) printf("holds %s %llu\n", holder, (unsigned long long)waited);
}

int main(void) {
  omp_init_lock(&lock);
  omp_init_nest_lock(&nest_lock);
  Both("waits_critical", "custom", "holds_critical", holds_critical, waits_critical);
  Both("waits_named", "custom", "holds_named", holds_named, waits_named);
  Both("waits_lock", "custom", "holds_lock", holds_lock, waits_lock);
  Both("waits_nest_lock", "custom", "holds_nest_lock", holds_nest_lock, waits_nest_lock);
  Both("waits_barrier", "barrier", "holds_barrier", holds_barrier, waits_barrier);
  // The first call of the runtime's function takes up to 60 us, which looks like a wait.
#pragma omp parallel for ordered schedule(static, 1) num_threads(2)
  for (int i = 0; i < 2; ++i) takes_turns();
  held = coming = 0;
#pragma omp parallel for ordered schedule(static, 1) num_threads(2)
  for (int i = 0; i < 2; ++i) {
    if (i == 0)
      holds_ordered();
    else
      WaitFor(waits_ordered);
  }
  printf("waits waits_ordered custom 1 %llu\n", (unsigned long long)waited);
  printf("waits holds_ordered custom 0 0\n");
  printf("holds holds_ordered %llu\n", (unsigned long long)waited);
  return 0;
}
