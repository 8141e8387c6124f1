// A program with two runtimes of OpenMP's. Each call reaches the one that it is linked with, in its version.
//     waits FUNCTION LABEL contentions delay_ns
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "clocks.h"
#include "known.h"
#include "openmp_runtime.h"

enum { kRounds = 5, kLateMs = 6 };

// As in programs of 2007: a lock of two words of four bytes. Today's are larger.
__asm__(".symver old_init,omp_init_nest_lock@OMP_1.0");
__asm__(".symver old_set,omp_set_nest_lock@OMP_1.0");
__asm__(".symver old_unset,omp_unset_nest_lock@OMP_1.0");
void old_init(void*);
void old_set(void*);
void old_unset(void*);

static _Atomic int coming, left;
static uint64_t waited;

static void* WaitEarly(void* unused) {
  for (int i = 1; i <= kRounds; ++i) {
    while (left != i - 1) Sleep(0);
    const uint64_t start = Now();
    coming = i;
    waits_early();
    waited += Now() - start;
  }
  return unused;
}

int main(void) {
  struct {
    int lock[2], behind[4];
  } old = {{0, 0}, {7, 7, 7, 7}};
  old_init(&old.lock);
  old_set(&old.lock);
  old_unset(&old.lock);
  int unchanged = 0;
  for (int i = 0; i < 4; ++i) unchanged += old.behind[i] == 7;
  omp_lock_t lock;
  omp_init_lock(&lock);
  omp_set_lock(&lock);
  omp_unset_lock(&lock);
  printf("unchanged %d\nlock %ld\n", unchanged, value_of_own_lock());

  pthread_t early;
  pthread_create(&early, NULL, WaitEarly, NULL);
  for (int i = 1; i <= kRounds; ++i) {
    while (coming != i) Sleep(0);
    Sleep(kLateMs);
    comes_last();
    left = i;
  }
  pthread_join(early, NULL);
  printf("waits waits_early barrier %d %llu\n", kRounds, (unsigned long long)waited);
  printf("waits comes_last barrier 0 0\n");
  return 0;
}
