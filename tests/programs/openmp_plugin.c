// A plugin that uses OpenMP: see loads_openmp.c.
#include <omp.h>

int counts(void) {
  int count = 0;
#pragma omp parallel num_threads(2)
  {
#pragma omp critical
    ++count;
#pragma omp barrier
  }
  return count;
}
