// Loaded and unloaded by one_thread.c: brings libpthread. Its destructor joins the threads that run its code, and calls
// pthread_join for the first time, while the dlclose is in progress.
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

static pthread_t background, holder;
static volatile int stop;

static void* RunUntilUnloaded(void* given) {
  const struct timespec pause = {0, 1000000};
  while (!stop) nanosleep(&pause, NULL);
  return given;
}
__attribute__((constructor)) static void Begin(void) { pthread_create(&background, NULL, RunUntilUnloaded, NULL); }
__attribute__((destructor)) static void End(void) {
  stop = 1;
  pthread_join(background, NULL);
  pthread_join(holder, NULL);
}

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
  sem_init(&started, 0, 0);
  if (pthread_create(&holder, NULL, Hold, NULL) != 0) return 1;
  sem_wait(&started);
  pthread_rwlock_wrlock(&lock);
  pthread_rwlock_unlock(&lock);
  return 0;
}
