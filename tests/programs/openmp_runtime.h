// For openmp_runtimes.c: a runtime, and a library that uses it.
#ifndef HOLDFAST_TESTS_PROGRAMS_OPENMP_RUNTIME_H_
#define HOLDFAST_TESTS_PROGRAMS_OPENMP_RUNTIME_H_

enum { kTeam = 2, kSet = 100 };

// The runtime.
void __kmpc_barrier(void* place, int thread);

// The library.
void waits_early(void);
void comes_last(void);
long value_of_own_lock(void);

#endif  // HOLDFAST_TESTS_PROGRAMS_OPENMP_RUNTIME_H_
