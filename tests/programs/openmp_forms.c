// Two threads of an OpenMP program, by calls with other names: compilers put the kind of a loop into the name of a parallel
// region, and Fortran appends `_`.
#include <stdio.h>

void omp_init_lock_(void* lock);
void omp_set_lock_(void* lock);
void omp_unset_lock_(void* lock);

int main(void) {
  static long lock[16];
  static volatile int sum;
  omp_init_lock_(lock);
#pragma omp parallel for num_threads(2) schedule(dynamic)
  for (int i = 0; i < 100; ++i) {
    omp_set_lock_(lock);
    sum += i;
    omp_unset_lock_(lock);
  }
#pragma omp parallel sections num_threads(2)
  {
#pragma omp section
    sum += 1;
#pragma omp section
    ;
  }
  printf("%d\n", sum);
  return 0;
}
