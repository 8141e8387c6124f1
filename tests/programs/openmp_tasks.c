// Two threads of an OpenMP program wait in ways that pass by the calls that the library replaces: for tasks, in a
// doacross loop, and at the end of a parallel region.
#include <stdio.h>

#include "clocks.h"

static void Tasks(void) {
#pragma omp parallel num_threads(2)
#pragma omp single
  {
    for (int i = 0; i < 4; ++i) {
#pragma omp task
      Sleep(1);
    }
#pragma omp taskwait
  }
}

static void Doacross(void) {
#pragma omp parallel for ordered(1) num_threads(2) schedule(static, 1)
  for (int i = 0; i < 4; ++i) {
#pragma omp ordered depend(sink : i - 1)
    Sleep(1);
#pragma omp ordered depend(source)
  }
}

int main(void) {
  Tasks();
  Doacross();
  puts("worked");
  return 0;
}
