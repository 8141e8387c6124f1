// OpenMP threads wait for each other, with system calls of OpenMP's own runtime. At the end, the pool's threads wait for work.
//   openmp_waits [THREADS]   default: 3
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"

static volatile long sum;
static volatile int ids[100];

int main(int argc, char** argv) {
  const int threads = argc > 1 ? atoi(argv[1]) : 3;
#pragma omp parallel num_threads(threads)
  {
    ids[omp_get_thread_num()] = (int)syscall(SYS_gettid);
    for (int i = 0; i < 100; ++i) {
#pragma omp critical
      sum += i;
    }
  }
  for (int i = 1; i < threads; ++i) {
    while (!Sleeps(ids[i])) usleep(100);
  }
  printf("%ld\n", sum);
  return 0;
}
