// Threads that pass one mutex to each other continuously: each holds it briefly and returns at once. Runs until its input ends.
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "known.h"

pthread_mutex_t convoy_mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_rwlock_t convoy_lock = PTHREAD_RWLOCK_INITIALIZER;

KNOWN void drive(void) {
  pthread_mutex_lock(&convoy_mutex);
  usleep(50);
  pthread_mutex_unlock(&convoy_mutex);
}
KNOWN void drive_lock(void) {
  pthread_rwlock_wrlock(&convoy_lock);
  usleep(50);
  pthread_rwlock_unlock(&convoy_lock);
}
static void* Drive(void* unused) {
  while (1) drive();
  return unused;
}
static void* DriveLock(void* unused) {
  while (1) drive_lock();
  return unused;
}

int main(void) {
  for (int i = 0; i < 8; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, i % 2 ? Drive : DriveLock, NULL);
  }
  printf("ready\n");
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}
