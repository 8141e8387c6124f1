// A runtime of OpenMP's, as LLVM's is: its symbols have another version than those of GNU, and its barrier waits by a
// condition. To set a lock adds kSet to it.
#include "openmp_runtime.h"

#include <pthread.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static int came, rounds;

void __kmpc_barrier(void* place, int thread) {
  (void)place, (void)thread;
  pthread_mutex_lock(&mutex);
  const int round = rounds;
  if (++came == kTeam) {
    came = 0;
    ++rounds;
    pthread_cond_broadcast(&condition);
  }
  while (rounds == round) pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}

void omp_set_lock(void* lock) { *(long*)lock += kSet; }
int omp_test_lock(void* lock) { return (int)(*(long*)lock += kSet); }
void omp_unset_lock(void* lock) { (void)lock; }
