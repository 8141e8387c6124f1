// Joins a thread that has ended, one that still runs, and one that waits for locks: with functions that the library calls
// in the place of the program's own. For libcs of any age.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;

static void Sleep(long ms) {
  const struct timespec pause = {0, ms * 1000000};
  nanosleep(&pause, NULL);
}
static void* Ends(void* given) { return given; }
static void* Runs(void* given) {
  Sleep(100);
  return given;
}
static void* Waits(void* given) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  pthread_rwlock_rdlock(&lock);
  pthread_rwlock_unlock(&lock);
  pthread_rwlock_wrlock(&lock);
  pthread_rwlock_unlock(&lock);
  return given;
}

int main(void) {
  void* (*const threads[])(void*) = {Ends, Runs, Waits};
  for (int i = 0; i < 3; ++i) {
    pthread_t thread;
    void* value = NULL;
    pthread_mutex_lock(&mutex);
    pthread_rwlock_wrlock(&lock);
    if (pthread_create(&thread, NULL, threads[i], (void*)threads[i]) != 0) return 1;
    if (i != 1) Sleep(100);
    pthread_mutex_unlock(&mutex);
    Sleep(i == 2 ? 100 : 0);
    pthread_rwlock_unlock(&lock);
    if (pthread_join(thread, &value) != 0 || value != (void*)threads[i]) return 2;
  }
  if (pthread_join(pthread_self(), NULL) != EDEADLK) return 3;
  puts("ended well");
  return 7;
}
