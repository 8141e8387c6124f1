// A library of a program that has two runtimes: it is linked with the second, and its calls are bound late.
#include "known.h"
#include "openmp_runtime.h"

void omp_set_lock(void* lock);
void omp_unset_lock(void* lock);

static volatile int sink;

KNOWN void waits_early(void) {
  __kmpc_barrier(0, 0);
  sink = 1;
}
KNOWN void comes_last(void) {
  __kmpc_barrier(0, 1);
  sink = 2;
}

long value_of_own_lock(void) {
  static long lock[16];
  omp_set_lock(lock);
  omp_unset_lock(lock);
  return lock[0];
}
