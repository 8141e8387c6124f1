// Loaded by one_thread.c: brings libpthread.
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static sem_t started;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void* Hold(void* given) {
  const struct timespec pause = {0, 20000000};
  pthread_rwlock_rdlock(&lock);
  sem_post(&started);
  nanosleep(&pause, NULL);
  pthread_rwlock_unlock(&lock);
  return given;
}

int WaitForThread(void) {
  pthread_t thread;
  sem_init(&started, 0, 0);
  if (pthread_create(&thread, NULL, Hold, NULL) != 0) return 1;
  sem_wait(&started);
  pthread_rwlock_wrlock(&lock);
  pthread_rwlock_unlock(&lock);
  return pthread_join(thread, NULL);
}
