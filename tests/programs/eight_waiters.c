// Holds a lock for a tenth of a second while eight threads wait for it.
#include <pthread.h>
#include <stddef.h>
#include <unistd.h>

static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t ready;

static void* take_ledger(void* unused) {
  (void)unused;
  pthread_barrier_wait(&ready);
  pthread_mutex_lock(&ledger);
  pthread_mutex_unlock(&ledger);
  return NULL;
}

int main(void) {
  pthread_t threads[8];
  pthread_barrier_init(&ready, NULL, 9);
  pthread_mutex_lock(&ledger);
  for (int i = 0; i < 8; ++i) pthread_create(&threads[i], NULL, take_ledger, NULL);
  pthread_barrier_wait(&ready);
  usleep(100000);
  pthread_mutex_unlock(&ledger);
  for (int i = 0; i < 8; ++i) pthread_join(threads[i], NULL);
  return 0;
}
