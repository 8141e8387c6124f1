// Locks every kind of mutex in every way. Results and errno must be as without the library. Prints one line per call.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "known.h"

#define SAY(call)                                       \
  do {                                                  \
    errno = 55;                                         \
    const int result = (call);                          \
    printf("%s: %d, errno %d\n", #call, result, errno); \
    fflush(stdout);                                     \
  } while (0)

static struct timespec In(clockid_t clock, long ms) {
  struct timespec t;
  clock_gettime(clock, &t);
  const long long ns = t.tv_sec * 1000000000LL + t.tv_nsec + ms * 1000000LL;
  return (struct timespec){ns / 1000000000, ns % 1000000000};
}

static pthread_barrier_t taken, done;
static pthread_mutex_t* shared_with_thread;

static void* HoldsIt(void* unused) {
  pthread_mutex_lock(shared_with_thread);
  pthread_barrier_wait(&taken);
  pthread_barrier_wait(&done);
  pthread_mutex_unlock(shared_with_thread);
  return unused;
}
static void* DiesWithIt(void* unused) {
  pthread_mutex_lock(shared_with_thread);
  return unused;
}
static void* DiesWhileOthersWait(void* unused) {
  pthread_mutex_lock(shared_with_thread);
  pthread_barrier_wait(&taken);
  const struct timespec soon = {0, 20000000};
  nanosleep(&soon, NULL);  // the main thread is waiting by now
  return unused;
}
static void* HoldsAWhile(void* unused) {
  pthread_mutex_lock(shared_with_thread);
  pthread_barrier_wait(&taken);
  const struct timespec soon = {0, 20000000};
  nanosleep(&soon, NULL);
  pthread_mutex_unlock(shared_with_thread);
  return unused;
}

// All the ways to take `m`, free and taken by another thread.
static void Ways(const char* kind, pthread_mutex_t* m) {
  printf("--- %s\n", kind);
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_unlock(m));
  SAY(pthread_mutex_trylock(m));
  SAY(pthread_mutex_unlock(m));
  struct timespec t = In(CLOCK_REALTIME, 1000);
  SAY(pthread_mutex_timedlock(m, &t));
  SAY(pthread_mutex_unlock(m));
  t = In(CLOCK_MONOTONIC, 1000);
  SAY(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t));
  SAY(pthread_mutex_unlock(m));
  SAY(pthread_mutex_clocklock(m, 99, &t));

  pthread_t thread;
  shared_with_thread = m;
  pthread_create(&thread, NULL, HoldsIt, NULL);
  pthread_barrier_wait(&taken);
  printf("taken by another thread\n");
  SAY(pthread_mutex_trylock(m));
  t = In(CLOCK_REALTIME, 5);
  SAY(pthread_mutex_timedlock(m, &t));
  t = In(CLOCK_REALTIME, -5000);
  SAY(pthread_mutex_timedlock(m, &t));
  t.tv_nsec = -1;
  SAY(pthread_mutex_timedlock(m, &t));
  t.tv_nsec = 1000000000;
  SAY(pthread_mutex_timedlock(m, &t));
  t = In(CLOCK_MONOTONIC, 5);
  SAY(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t));
  SAY(pthread_mutex_clocklock(m, 99, &t));
  pthread_barrier_wait(&done);
  pthread_join(thread, NULL);

  for (int i = 0; i < 3; ++i) {
    pthread_create(&thread, NULL, HoldsAWhile, NULL);
    pthread_barrier_wait(&taken);
    t = i == 1 ? In(CLOCK_REALTIME, 10000) : In(CLOCK_MONOTONIC, 10000);
    printf("waits for another thread\n");
    if (i == 0) SAY(pthread_mutex_lock(m));
    if (i == 1) SAY(pthread_mutex_timedlock(m, &t));
    if (i == 2) SAY(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t));
    SAY(pthread_mutex_unlock(m));
    pthread_join(thread, NULL);
  }
}

static void Again(const char* kind, pthread_mutex_t* m) {
  printf("--- %s, taken again by its owner\n", kind);
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_trylock(m));
  struct timespec t = In(CLOCK_REALTIME, 5);
  SAY(pthread_mutex_timedlock(m, &t));
  t = In(CLOCK_MONOTONIC, 5);
  SAY(pthread_mutex_clocklock(m, CLOCK_MONOTONIC, &t));
  for (int i = 0; i < 5; ++i) SAY(pthread_mutex_unlock(m));
}

static void Robust(const char* kind, pthread_mutex_t* m) {
  printf("--- %s: its owner dies\n", kind);
  pthread_t thread;
  shared_with_thread = m;
  pthread_create(&thread, NULL, DiesWithIt, NULL);
  pthread_join(thread, NULL);
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_consistent(m));
  SAY(pthread_mutex_unlock(m));
  pthread_create(&thread, NULL, DiesWithIt, NULL);
  pthread_join(thread, NULL);
  SAY(pthread_mutex_trylock(m));
  SAY(pthread_mutex_consistent(m));
  SAY(pthread_mutex_unlock(m));
  pthread_create(&thread, NULL, DiesWithIt, NULL);
  pthread_join(thread, NULL);
  struct timespec t = In(CLOCK_REALTIME, 1000);
  SAY(pthread_mutex_timedlock(m, &t));
  SAY(pthread_mutex_consistent(m));
  SAY(pthread_mutex_unlock(m));
  pthread_create(&thread, NULL, DiesWhileOthersWait, NULL);
  pthread_barrier_wait(&taken);
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_consistent(m));
  SAY(pthread_mutex_unlock(m));
  pthread_join(thread, NULL);
  pthread_create(&thread, NULL, DiesWithIt, NULL);
  pthread_join(thread, NULL);
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_unlock(m));  // without making it consistent: nobody may have it any more
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_trylock(m));
}

static pthread_mutex_t* Make(int type, int protocol, int robust, int shared) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  pthread_mutexattr_setprotocol(&attributes, protocol);
  pthread_mutexattr_setrobust(&attributes, robust);
  pthread_mutexattr_setpshared(&attributes, shared);
  if (protocol == PTHREAD_PRIO_PROTECT) pthread_mutexattr_setprioceiling(&attributes, 1);
  pthread_mutex_t* m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  SAY(pthread_mutex_init(m, &attributes));
  return m;
}

static void ProcessShared(pthread_mutex_t* m) {
  printf("--- shared between processes\n");
  int tell[2];
  if (pipe(tell)) exit(1);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(m);
    if (write(tell[1], "x", 1) != 1) _exit(1);
    const struct timespec soon = {0, 20000000};
    nanosleep(&soon, NULL);
    pthread_mutex_unlock(m);
    _exit(0);
  }
  char c;
  if (read(tell[0], &c, 1) != 1) exit(1);
  SAY(pthread_mutex_trylock(m));
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_unlock(m));
  int status;
  waitpid(child, &status, 0);
  printf("child ended with %d\n", status);
}

static void ProcessDies(pthread_mutex_t* m) {
  printf("--- robust, shared: the process dies\n");
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(m);
    _exit(0);
  }
  int status;
  waitpid(child, &status, 0);
  SAY(pthread_mutex_lock(m));
  SAY(pthread_mutex_consistent(m));
  SAY(pthread_mutex_unlock(m));
}

static mtx_t c11;
static int HoldsC11(void* unused) {
  (void)unused;
  mtx_lock(&c11);
  pthread_barrier_wait(&taken);
  pthread_barrier_wait(&done);
  mtx_unlock(&c11);
  return 0;
}

static void C11(int type) {
  printf("--- C11 type %d\n", type);
  SAY(mtx_init(&c11, type));
  SAY(mtx_lock(&c11));
  SAY(mtx_unlock(&c11));
  SAY(mtx_trylock(&c11));
  SAY(mtx_unlock(&c11));
  thrd_t thread;
  thrd_create(&thread, HoldsC11, NULL);
  pthread_barrier_wait(&taken);
  SAY(mtx_trylock(&c11));
  struct timespec t = In(CLOCK_REALTIME, 5);
  SAY(mtx_timedlock(&c11, &t));
  pthread_barrier_wait(&done);
  SAY(mtx_lock(&c11));
  SAY(mtx_unlock(&c11));
  thrd_join(thread, NULL);
  mtx_destroy(&c11);
}

int main(void) {
  pthread_barrier_init(&taken, NULL, 2);
  pthread_barrier_init(&done, NULL, 2);
  const struct sched_param ordinary = {0}, real_time = {1};
  static const struct {
    const char* name;
    int type, protocol, robust, shared, fifo;
  } kinds[] = {
      {"normal", PTHREAD_MUTEX_NORMAL, 0, 0, 0, 0},
      {"recursive", PTHREAD_MUTEX_RECURSIVE, 0, 0, 0, 0},
      {"errorcheck", PTHREAD_MUTEX_ERRORCHECK, 0, 0, 0, 0},
      {"adaptive", PTHREAD_MUTEX_ADAPTIVE_NP, 0, 0, 0, 0},
      {"robust", PTHREAD_MUTEX_NORMAL, 0, PTHREAD_MUTEX_ROBUST, 0, 0},
      {"robust recursive", PTHREAD_MUTEX_RECURSIVE, 0, PTHREAD_MUTEX_ROBUST, 0, 0},
      {"robust errorcheck", PTHREAD_MUTEX_ERRORCHECK, 0, PTHREAD_MUTEX_ROBUST, 0, 0},
      {"priority inheritance", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_INHERIT, 0, 0, 0},
      {"priority inheritance, recursive", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_INHERIT, 0, 0, 0},
      {"priority inheritance, robust", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST, 0, 0},
      {"priority protection", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_PROTECT, 0, 0, 0},
      {"priority protection, errorcheck", PTHREAD_MUTEX_ERRORCHECK, PTHREAD_PRIO_PROTECT, 0, 0, 0},
      {"priority protection under SCHED_FIFO", PTHREAD_MUTEX_NORMAL, PTHREAD_PRIO_PROTECT, 0, 0, 1},
      {"priority protection, recursive, under SCHED_FIFO", PTHREAD_MUTEX_RECURSIVE, PTHREAD_PRIO_PROTECT, 0, 0, 1},
      {"shared", PTHREAD_MUTEX_NORMAL, 0, 0, PTHREAD_PROCESS_SHARED, 0},
      {"shared robust", PTHREAD_MUTEX_NORMAL, 0, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_SHARED, 0},
  };
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
    pthread_mutex_t* m = Make(kinds[i].type, kinds[i].protocol, kinds[i].robust, kinds[i].shared);
    if (kinds[i].fifo) SAY(sched_setscheduler(0, SCHED_FIFO, &real_time));
    Ways(kinds[i].name, m);
    if (kinds[i].type == PTHREAD_MUTEX_RECURSIVE || kinds[i].type == PTHREAD_MUTEX_ERRORCHECK) Again(kinds[i].name, m);
    if (kinds[i].robust) Robust(kinds[i].name, m);
    if (kinds[i].shared && !kinds[i].robust) ProcessShared(m);
    if (kinds[i].fifo) SAY(sched_setscheduler(0, SCHED_OTHER, &ordinary));
  }
  ProcessDies(Make(PTHREAD_MUTEX_NORMAL, 0, PTHREAD_MUTEX_ROBUST, PTHREAD_PROCESS_SHARED));
  C11(mtx_plain);
  C11(mtx_timed);
  C11(mtx_timed | mtx_recursive);
  return 0;
}
