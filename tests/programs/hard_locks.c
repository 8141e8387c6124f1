// Misuse of locks that occurs in real programs. Prints the result of each phase; nothing may hang or crash.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "known.h"

static void Sleep(long us) {
  const struct timespec t = {us / 1000000, us % 1000000 * 1000};
  nanosleep(&t, NULL);
}
static void Say(const char* what, long number) {
  printf("%s %ld\n", what, number);
  fflush(stdout);
}

// ---- More threads at one lock than it has cores, places for waiters, or anything ----
enum { kCrowd = 100, kCrowdRounds = 30 };
static pthread_mutex_t crowded = PTHREAD_MUTEX_INITIALIZER;
static long crowd_rounds;
static void* InTheCrowd(void* unused) {
  for (int i = 0; i < kCrowdRounds; ++i) {
    pthread_mutex_lock(&crowded);
    ++crowd_rounds;
    if (i % 8 == 0) Sleep(1);
    pthread_mutex_unlock(&crowded);
  }
  return unused;
}
static void Crowd(void) {
  pthread_t ids[kCrowd];
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 64 * 1024);
  for (int i = 0; i < kCrowd; ++i) pthread_create(&ids[i], &small, InTheCrowd, NULL);
  for (int i = 0; i < kCrowd; ++i) pthread_join(ids[i], NULL);
  Say("crowd", crowd_rounds);
}

// ---- Locks that all want the same few places (addresses 32 MiB apart), waited for all at once ----
enum { kCrossed = 14 };
static pthread_mutex_t* crossed[kCrossed];
static pthread_barrier_t crossing;
static void* Crosses(void* which) {
  pthread_mutex_t* mutex = crossed[(uintptr_t)which];
  pthread_barrier_wait(&crossing);
  pthread_mutex_lock(mutex);
  pthread_mutex_unlock(mutex);
  return NULL;
}
static void Crossed(void) {
  const size_t apart = 32u << 20;
  char* memory =
      mmap(NULL, apart * kCrossed, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  pthread_t ids[kCrossed];
  pthread_barrier_init(&crossing, NULL, kCrossed + 1);
  for (uintptr_t i = 0; i < kCrossed; ++i) {
    crossed[i] = (pthread_mutex_t*)(memory + i * apart);
    pthread_mutex_lock(crossed[i]);
    pthread_create(&ids[i], NULL, Crosses, (void*)i);
  }
  pthread_barrier_wait(&crossing);
  Sleep(100000);
  for (int i = 0; i < kCrossed; ++i) pthread_mutex_unlock(crossed[i]);
  for (int i = 0; i < kCrossed; ++i) pthread_join(ids[i], NULL);
  munmap(memory, apart * kCrossed);
  Say("crossed", kCrossed);
}

// ---- Objects that whoever lets go last destroys, with the mutex in them: more locks than anybody keeps account of ----
typedef struct {
  pthread_mutex_t mutex;
  int users;
  long number;
} Object;
enum { kObjects = 5000 };
static Object* _Atomic handed_over;
static void LetGo(Object* object) {
  pthread_mutex_lock(&object->mutex);
  const int left = --object->users;
  pthread_mutex_unlock(&object->mutex);
  if (left != 0) return;
  pthread_mutex_destroy(&object->mutex);
  object->number = -1;
  free(object);
}
static void* TakesOver(void* unused) {
  for (int i = 0; i < kObjects; ++i) {
    Object* object;
    while ((object = handed_over) == NULL) sched_yield();
    handed_over = NULL;
    LetGo(object);
  }
  return unused;
}
static void Objects(void) {
  pthread_t other;
  pthread_create(&other, NULL, TakesOver, NULL);
  for (int i = 0; i < kObjects; ++i) {
    Object* object = malloc(sizeof *object + (size_t)(i % 500) * 16);
    pthread_mutex_init(&object->mutex, NULL);
    object->users = 2;
    pthread_mutex_lock(&object->mutex);
    handed_over = object;
    while (handed_over != NULL) sched_yield();
    pthread_mutex_unlock(&object->mutex);
    LetGo(object);
  }
  pthread_join(other, NULL);
  Say("objects", kObjects);
}

// ---- A mutex between processes ----
static void Shared(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  struct {
    pthread_mutex_t mutex;
    volatile int held;
  }* shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutex_init(&shared->mutex, &attributes);
  for (int dies = 0; dies < 2; ++dies) {
    shared->held = 0;
    const pid_t child = fork();
    if (child == 0) {
      pthread_mutex_lock(&shared->mutex);
      shared->held = 1;
      Sleep(30000);
      if (!dies) pthread_mutex_unlock(&shared->mutex);
      _exit(0);
    }
    while (!shared->held) Sleep(100);
    const int result = pthread_mutex_lock(&shared->mutex);
    Say(dies ? "owner died" : "shared", result);
    if (result == EOWNERDEAD) pthread_mutex_consistent(&shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
    waitpid(child, NULL, 0);
  }
}

// ---- A mutex that lends its holder the waiters' priority ----
static pthread_mutex_t inheriting;
static long inherited;
static void* Inherits(void* unused) {
  for (int i = 0; i < 200; ++i) {
    pthread_mutex_lock(&inheriting);
    ++inherited;
    if (i % 8 == 0) Sleep(1);
    pthread_mutex_unlock(&inheriting);
  }
  return unused;
}
static void Inheriting(void) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
  pthread_mutex_init(&inheriting, &attributes);
  pthread_t ids[4];
  for (int i = 0; i < 4; ++i) pthread_create(&ids[i], NULL, Inherits, NULL);
  for (int i = 0; i < 4; ++i) pthread_join(ids[i], NULL);
  Say("inheriting", inherited);
}

// ---- Forks while others hold and wait; the child has waits of its own ----
static volatile int stop;
static pthread_mutex_t fought_for = PTHREAD_MUTEX_INITIALIZER, of_child = PTHREAD_MUTEX_INITIALIZER;
static void* Fights(void* unused) {
  while (!stop) {
    pthread_mutex_lock(&fought_for);
    Sleep(1);
    pthread_mutex_unlock(&fought_for);
  }
  return unused;
}
static void* OfChild(void* unused) {
  pthread_mutex_lock(&of_child);
  pthread_mutex_unlock(&of_child);
  return unused;
}
static void Forks(void) {
  pthread_t ids[6];
  long fine = 0;
  for (int i = 0; i < 6; ++i) pthread_create(&ids[i], NULL, Fights, NULL);
  for (int i = 0; i < 8; ++i) {
    Sleep(2000);
    const pid_t child = fork();
    if (child == 0) {
      pthread_t waiter;
      pthread_mutex_lock(&of_child);
      pthread_create(&waiter, NULL, OfChild, NULL);
      Sleep(5000);
      pthread_mutex_unlock(&of_child);
      pthread_join(waiter, NULL);
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    fine += WIFEXITED(status) && WEXITSTATUS(status) == 7;
  }
  stop = 1;
  for (int i = 0; i < 6; ++i) pthread_join(ids[i], NULL);
  Say("forks", fine);
}

int main(void) {
  Crowd();
  Crossed();
  Objects();
  Shared();
  Inheriting();
  Forks();
  return 0;
}
