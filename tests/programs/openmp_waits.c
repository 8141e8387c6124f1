// OpenMP threads wait for each other, with system calls of OpenMP's own runtime. At the end, the pool's threads wait for work.
#include <omp.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "asleep.h"

static volatile long sum;
static volatile int ids[3];

int main(void) {
#pragma omp parallel num_threads(3)
  {
    ids[omp_get_thread_num()] = (int)syscall(SYS_gettid);
    for (int i = 0; i < 100; ++i) {
#pragma omp critical
      sum += i;
    }
  }
  while (!Sleeps(ids[1]) || !Sleeps(ids[2])) usleep(100);
  printf("%ld\n", sum);
  return 0;
}
