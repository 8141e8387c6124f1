// Finds how little stack is enough for a call. `little_stack CASE [BYTES]`: in a child, with 4,096, 4,032 … 64 bytes left
// above an inaccessible page; prints at which size it died. With BYTES: only that size, in this process.
#define _GNU_SOURCE
#include <alloca.h>
#include <errno.h>
#include <linux/futex.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "asleep.h"

enum { kStep = 64, kMax = 4096, kStackBytes = 256 << 10 };

static char* stack;  // its lowest byte that may be touched
static void* blocks[16];

// ---- what is called with little stack left ----

static void Malloc(void) {
  for (size_t i = 0; i < 4; ++i) blocks[i] = malloc(100 + i);
}
static void Calloc(void) { blocks[0] = calloc(3, 50); }
static void Realloc(void) { blocks[0] = realloc(blocks[0], 300); }
static void Memalign(void) { blocks[0] = memalign(64, 100); }
static void Free(void) {
  for (size_t i = 0; i < 4; ++i) free(blocks[i]), blocks[i] = NULL;
}

static void Map(void) { munmap(mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 4096); }

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static pthread_barrier_t barrier;
static uint32_t word;
static int signalled;

static void Lock(void) { pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex); }
static void Unlock(void) { pthread_mutex_unlock(&mutex); }
static void Write(void) { pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock); }
static void Read(void) { pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock); }
static void Spin(void) { pthread_spin_lock(&spin), pthread_spin_unlock(&spin); }
static void Semaphore(void) { sem_wait(&semaphore); }
static void Barrier(void) { pthread_barrier_wait(&barrier); }
static pthread_t joined;
static void Join(void) { pthread_join(joined, NULL); }
static void Signal(void) { pthread_cond_signal(&condition); }
static void Futex(void) { syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL); }
static void Condition(void) {
  pthread_mutex_lock(&mutex);
  while (!signalled) pthread_cond_wait(&condition, &mutex);
  pthread_mutex_unlock(&mutex);
}

// ---- what another thread does meanwhile, and before ----

static void Pause(void) { usleep(500); }
static void Hold(void) { pthread_mutex_lock(&mutex); }
static _Atomic int waiter;  // the thread with little stack, once it goes to what it waits for
// Once it sleeps there: on a busy machine that takes longer than any pause.
static void ReleaseSoon(void) {
  for (int i = 0; i < 4000 && (waiter == 0 || !Sleeps(waiter)); ++i) Pause();
  Pause(), pthread_mutex_unlock(&mutex);
}
static void HoldRw(void) { pthread_rwlock_wrlock(&rwlock); }
static void ReleaseRwSoon(void) { Pause(), pthread_rwlock_unlock(&rwlock); }
static void HoldSpin(void) { pthread_spin_init(&spin, 0), pthread_spin_lock(&spin); }
static void ReleaseSpinSoon(void) { Pause(), pthread_spin_unlock(&spin); }
static void Empty(void) { sem_init(&semaphore, 0, 0); }
static void PostSoon(void) { Pause(), sem_post(&semaphore); }
static void Two(void) { pthread_barrier_init(&barrier, NULL, 2); }
static void ComeSoon(void) { Pause(), pthread_barrier_wait(&barrier); }
static void WakeSoon(void) {
  Pause(), word = 1;
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1);
}
static void SignalSoon(void) {
  Pause(), pthread_mutex_lock(&mutex);
  signalled = 1;
  pthread_cond_signal(&condition), pthread_mutex_unlock(&mutex);
}
static void* EndsSoon(void* unused) { return Pause(), unused; }
static void Start(void) { pthread_create(&joined, NULL, EndsSoon, NULL); }
static _Atomic int sleeper;  // the thread that is to be woken, once it goes to sleep
static void WaitForSignal(void) {
  sleeper = gettid();
  Condition();
}
// Once that thread sleeps: a signal that finds somebody takes more stack than one for nobody.
static void AwaitSleeper(void) {
  for (int i = 0; i < 4000 && (sleeper == 0 || !Sleeps(sleeper)); ++i) Pause();
  pthread_mutex_lock(&mutex), signalled = 1, pthread_mutex_unlock(&mutex);
}
static void LockLate(void) { pthread_mutex_lock(&mutex); }
static void Waits(void) { pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex); }

static const struct Case {
  const char* name;
  void (*with_little)(void);
  void (*before)(void);     // by the thread that has little left, while it still has much
  void (*first)(void);      // by another thread, before
  void (*meanwhile)(void);  // by another thread
} cases[] = {{"malloc", Malloc, NULL, NULL, NULL},
             {"calloc", Calloc, NULL, NULL, NULL},
             {"realloc", Realloc, Malloc, NULL, NULL},
             {"memalign", Memalign, NULL, NULL, NULL},
             {"free", Free, Malloc, NULL, NULL},
             {"mmap", Map, NULL, NULL, NULL},
             {"mutex", Lock, NULL, Hold, ReleaseSoon},
             {"unlock", Unlock, Hold, NULL, Waits},
             {"unlock_after_wait", Unlock, LockLate, Hold, ReleaseSoon},
             {"signal", Signal, NULL, NULL, WaitForSignal},
             {"join", Join, Start, NULL, NULL},
             {"write", Write, NULL, HoldRw, ReleaseRwSoon},
             {"read", Read, NULL, HoldRw, ReleaseRwSoon},
             {"spin", Spin, NULL, HoldSpin, ReleaseSpinSoon},
             {"semaphore", Semaphore, Empty, NULL, PostSoon},
             {"barrier", Barrier, Two, NULL, ComeSoon},
             {"futex", Futex, NULL, NULL, WakeSoon},
             {"condition", Condition, NULL, NULL, SignalSoon}};
static const struct Case* chosen;
static size_t left;
static int warm;

// ---- ----

__attribute__((noinline)) static void CallWithLittle(void (*function)(void)) {
  char* here;
#if defined(__aarch64__)
  __asm__ volatile("mov %0, sp" : "=r"(here));
#else
  __asm__ volatile("mov %%rsp, %0" : "=r"(here));
#endif
  volatile char* rest = alloca((size_t)(here - stack) - left);
  __asm__ volatile("" : : "r"(rest) : "memory");
  function();
}

static pthread_barrier_t ready;
static void* Other(void* unused) {
  if (chosen->first != NULL) chosen->first();
  pthread_barrier_wait(&ready);
  if (chosen->meanwhile != NULL) chosen->meanwhile();
  return unused;
}

static void* WithLittle(void* unused) {
  if (warm) {  // a sample of every kind is behind us
    for (int i = 0; i < 3; ++i) free(malloc(77));
  }
  if (chosen->before != NULL && chosen->before != LockLate) chosen->before();
  pthread_barrier_wait(&ready);
  waiter = gettid();
  if (chosen->before == LockLate) LockLate();
  if (chosen->with_little == Unlock) Pause(), Pause();
  if (chosen->with_little == Signal) AwaitSleeper();
  CallWithLittle(chosen->with_little);
  return unused;
}

// The forbidden page lies below the thread's own stack, as its guard does.
static void RunCase(void) {
  signalled = 0, word = 0, waiter = 0, sleeper = 0;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* low = mmap(NULL, page + kStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(low, page, PROT_NONE);
  stack = low + page;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStackBytes);
  pthread_barrier_init(&ready, NULL, 2);
  pthread_t one, other;
  pthread_create(&other, NULL, Other, NULL);
  pthread_create(&one, &attributes, WithLittle, NULL);
  pthread_join(one, NULL);
  pthread_join(other, NULL);
  munmap(low, page + kStackBytes);
}

// Down from much to little, as long as the child lives; each time in new threads.
static void FindSmallest(void) {
  volatile size_t* lived = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const pid_t child = fork();
  if (child == 0) {
    alarm(30);
    for (left = kMax; left > 0; left -= kStep) RunCase(), *lived = left;
    _exit(0);
  }
  waitpid(child, NULL, 0);
  printf("%s: lives with %zu bytes\n", chosen->name, *lived);
}

// Each call is the first one of a new process.
static void FindSmallestAtFirst(void) {
  size_t smallest = 0;
  for (left = kStep; left <= kMax; left += kStep) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      RunCase();
      _exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    if (status == 0 && smallest == 0) smallest = left;
    if (status != 0) smallest = 0;
  }
  printf("%s, at first: lives with %zu bytes\n", chosen->name, smallest);
}

int main(int argc, char** argv) {
  setvbuf(stdout, NULL, _IONBF, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (argc < 2 || (strcmp(argv[1], cases[i].name) && strcmp(argv[1], "all"))) continue;
    chosen = &cases[i];
    if (argc > 2) {
      left = (size_t)atol(argv[2]), warm = 1;
      RunCase();
      continue;
    }
    if (chosen->with_little == Malloc || chosen->with_little == Lock) FindSmallestAtFirst();
    warm = 1;
    FindSmallest();
    warm = 0;
  }
  return chosen == NULL ? 99 : 0;
}
