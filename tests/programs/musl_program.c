// A program of the C library musl: blocks, threads, locks of every kind, a thread that ends early, a forked child,
// destructors of a thread's objects as a C++ runtime registers them.
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kBlocks = 2000, kBytes = 10000, kThreads = 4, kRounds = 1000 };

static void* blocks[kBlocks];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, recursive, checked;
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_barrier_t all_here;
static sem_t done;
static long sum, turns, first_calls;

__attribute__((noinline)) static void HoldBlocks(void) {
  for (int i = 0; i < kBlocks; ++i) blocks[i] = malloc(kBytes);
  for (int i = 0; i < kBlocks / 2; ++i) free(blocks[i]);
}

static void Once(void) { ++first_calls; }

// musl lacks it; a library may bring it.
extern int __cxa_thread_atexit_impl(void (*)(void*), void*, void*) __attribute__((weak));
static pthread_key_t at_thread_end;
static long ended;
static void End(void* name) {
  __atomic_fetch_add(&ended, 1, __ATOMIC_RELAXED);
  if (strcmp(name, "main") == 0) printf("%s ended, with %ld\n", (char*)name, ended);
}
static void EndMain(void) { End("main"); }
static void AtThreadEnd(char* name) {
  if (__cxa_thread_atexit_impl) {
    __cxa_thread_atexit_impl(End, name, NULL);
  } else if (strcmp(name, "main") == 0) {
    atexit(EndMain);
  } else {
    pthread_setspecific(at_thread_end, name);
  }
}

static void* Work(void* given) {
  (void)given;
  AtThreadEnd("thread");
  pthread_once(&once, Once);
  pthread_barrier_wait(&all_here);
  for (int i = 0; i < kRounds; ++i) {
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&recursive);
    pthread_mutex_lock(&mutex);
    ++sum;
    pthread_cond_signal(&changed);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_unlock(&recursive);
    pthread_mutex_lock(&checked);
    if (pthread_mutex_trylock(&checked) == 0) abort();
    pthread_mutex_unlock(&checked);
    pthread_rwlock_wrlock(&shared);
    ++turns;
    pthread_rwlock_unlock(&shared);
    pthread_rwlock_rdlock(&shared);
    pthread_rwlock_unlock(&shared);
  }
  sem_post(&done);
  pthread_exit(NULL);
}

static void Initialize(pthread_mutex_t* one, int type) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, type);
  pthread_mutex_init(one, &attributes);
}

int main(void) {
  HoldBlocks();
  pthread_key_create(&at_thread_end, End);
  AtThreadEnd("main");
  Initialize(&recursive, PTHREAD_MUTEX_RECURSIVE);
  Initialize(&checked, PTHREAD_MUTEX_ERRORCHECK);
  pthread_barrier_init(&all_here, NULL, kThreads);
  sem_init(&done, 0, 0);
  pthread_t threads[kThreads];
  for (int i = 0; i < kThreads; ++i) pthread_create(&threads[i], NULL, Work, NULL);
  pthread_mutex_lock(&mutex);
  while (sum < kThreads * kRounds) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
  for (int i = 0; i < kThreads; ++i) sem_wait(&done);
  for (int i = 0; i < kThreads; ++i) pthread_join(threads[i], NULL);
  const pid_t child = fork();
  if (child == 0) _exit(malloc(100) != NULL ? 3 : 4);
  int status = 0;
  waitpid(child, &status, 0);
  printf("sum %ld turns %ld once %ld child %d\n", sum, turns, first_calls, WEXITSTATUS(status));
  printf("expect HoldBlocks %d %d %d %d\n", kBlocks, kBlocks * kBytes, kBlocks / 2, kBlocks / 2 * kBytes);
  return 5;
}
