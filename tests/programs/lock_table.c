// Every primitive that waits × free, contended, timed out, cancelled. Prints for each call a line with its result, which
// must be the same without the library, and a line with the waits by the program's own clock:
//     result FUNCTION result errno
//     waits FUNCTION label contentions delay_ns
// With musl, which has no waits by a chosen clock and no old versions, these rows are missing.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include "clocks.h"
#include "known.h"

#if __has_include(<linux/futex.h>)
#include <linux/futex.h>
#else
enum { FUTEX_WAKE_PRIVATE = 129, FUTEX_WAIT_PRIVATE = 128, FUTEX_WAIT_BITSET = 9, FUTEX_PRIVATE_FLAG = 128 };
#endif

enum { kHoldMs = 40 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, of_condition = PTHREAD_MUTEX_INITIALIZER;
static mtx_t c11, c11_of_condition;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER, old_condition = PTHREAD_COND_INITIALIZER;
static cnd_t c11_condition;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static once_flag c11_once = ONCE_FLAG_INIT;
static pthread_t joined;
static thrd_t c11_joined;
static uint32_t futex_word;
static struct timespec real_deadline, deadline, how_long;

#ifdef __GLIBC__
int old_cond_wait(pthread_cond_t*, pthread_mutex_t*);
int old_cond_timedwait(pthread_cond_t*, pthread_mutex_t*, const struct timespec*);
int old_cond_signal(pthread_cond_t*);
#if defined(__aarch64__)  // has one version of each
#define OLDEST "GLIBC_2.17"
#else
#define OLDEST "GLIBC_2.2.5"
#endif
__asm__(".symver old_cond_wait, pthread_cond_wait@" OLDEST);
__asm__(".symver old_cond_timedwait, pthread_cond_timedwait@" OLDEST);
__asm__(".symver old_cond_signal, pthread_cond_signal@" OLDEST);
#endif

static struct timespec In(clockid_t clock, long ms) {
  struct timespec t;
  clock_gettime(clock, &t);
  const long long ns = t.tv_sec * 1000000000LL + t.tv_nsec + ms * 1000000LL;
  return (struct timespec){ns / 1000000000, ns % 1000000000};
}
static int Errno(int result) { return result == -1 ? errno : 0; }

// ---- Who holds, and how it is let go ----
static void HoldMutex(void) { pthread_mutex_lock(&mutex); }
static void LetMutexGo(void) { pthread_mutex_unlock(&mutex); }
static void HoldC11(void) { mtx_lock(&c11); }
static void LetC11Go(void) { mtx_unlock(&c11); }
static void HoldForReading(void) { pthread_rwlock_rdlock(&rwlock); }
static void HoldForWriting(void) { pthread_rwlock_wrlock(&rwlock); }
static void LetRwlockGo(void) { pthread_rwlock_unlock(&rwlock); }
static void HoldSpin(void) { pthread_spin_lock(&spin); }
static void LetSpinGo(void) { pthread_spin_unlock(&spin); }
static void Nothing(void) {}
static void Post(void) { sem_post(&semaphore); }
static void TakeMutexOfCondition(void) { pthread_mutex_lock(&of_condition); }
static void LetMutexOfConditionGo(void) { pthread_mutex_unlock(&of_condition); }
static void Signal(void) {
  pthread_mutex_lock(&of_condition);
  pthread_mutex_unlock(&of_condition);
  pthread_cond_signal(&condition);
}
static void Broadcast(void) {
  pthread_mutex_lock(&of_condition);
  pthread_mutex_unlock(&of_condition);
  pthread_cond_broadcast(&condition);
}
#ifdef __GLIBC__
static void OldSignal(void) {
  pthread_mutex_lock(&of_condition);
  pthread_mutex_unlock(&of_condition);
  old_cond_signal(&old_condition);
}
#endif
static void TakeC11OfCondition(void) { mtx_lock(&c11_of_condition); }
static void LetC11OfConditionGo(void) { mtx_unlock(&c11_of_condition); }
static void C11Signal(void) {
  mtx_lock(&c11_of_condition);
  mtx_unlock(&c11_of_condition);
  cnd_signal(&c11_condition);
}
static void Come(void) { pthread_barrier_wait(&barrier); }
static void TakesAWhile(void) { Sleep(kHoldMs); }
static void RunOnce(void) { pthread_once(&once, TakesAWhile); }
static void RunC11Once(void) { call_once(&c11_once, TakesAWhile); }
static void* SleepsAWhile(void* ms) {
  Sleep((long)(intptr_t)ms);
  return ms;
}
static int C11SleepsAWhile(void* ms) {
  Sleep((long)(intptr_t)ms);
  return 7;
}
static void StartThread(long ms) { pthread_create(&joined, NULL, SleepsAWhile, (void*)(intptr_t)ms); }
static void StartC11Thread(long ms) { thrd_create(&c11_joined, C11SleepsAWhile, (void*)(intptr_t)ms); }
static void Wake(void) {
  __atomic_store_n(&futex_word, 1, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &futex_word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static void ResetFutex(void) { futex_word = 0; }

// name, label, the call, before it in the same thread, held by another, let go by it, after it in the same thread
#define PRIMITIVES(X)                                                                                                  \
  X(mutex_lock, "mutex", pthread_mutex_lock(&mutex), Nothing, HoldMutex, LetMutexGo, LetMutexGo)                       \
  X(mtx_lock_, "mutex", mtx_lock(&c11), Nothing, HoldC11, LetC11Go, LetC11Go)                                          \
  X(rdlock, "rwlock-read", pthread_rwlock_rdlock(&rwlock), Nothing, HoldForWriting, LetRwlockGo, LetRwlockGo)          \
  X(wrlock, "rwlock-write", pthread_rwlock_wrlock(&rwlock), Nothing, HoldForReading, LetRwlockGo, LetRwlockGo)         \
  X(spin_lock, "spin", pthread_spin_lock(&spin), Nothing, HoldSpin, LetSpinGo, LetSpinGo)                              \
  X(sem_wait_, "semaphore", sem_wait(&semaphore), Nothing, Nothing, Post, Nothing)                                     \
  X(cond_wait, "condition", pthread_cond_wait(&condition, &of_condition), TakeMutexOfCondition, Nothing, Signal,       \
    LetMutexOfConditionGo)                                                                                             \
  X(cond_wait_all, "condition", pthread_cond_wait(&condition, &of_condition), TakeMutexOfCondition, Nothing,           \
    Broadcast, LetMutexOfConditionGo)                                                                                  \
  X(cnd_wait_, "condition", cnd_wait(&c11_condition, &c11_of_condition), TakeC11OfCondition, Nothing, C11Signal,       \
    LetC11OfConditionGo)                                                                                               \
  X(barrier_wait, "barrier", pthread_barrier_wait(&barrier) & 0, Nothing, Nothing, Come, Nothing)                      \
  X(once_, "once", pthread_once(&once, TakesAWhile), Nothing, Nothing, Nothing, Nothing)                               \
  X(call_once_, "once", ({                                                                                             \
      call_once(&c11_once, TakesAWhile);                                                                               \
      0;                                                                                                               \
    }),                                                                                                                \
    Nothing, Nothing, Nothing, Nothing)                                                                                \
  X(join, "join", pthread_join(joined, NULL), Nothing, Nothing, Nothing, Nothing)                                      \
  X(thrd_join_, "join", ({                                                                                             \
      int value = 0;                                                                                                   \
      thrd_join(c11_joined, &value) * 100 + value;                                                                     \
    }),                                                                                                                \
    Nothing, Nothing, Nothing, Nothing)                                                                                \
  X(futex_wait, "futex", (int)syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), Nothing, Nothing, \
    Wake, ResetFutex)                                                                                                  \
  X(futex_wait_bitset, "futex",                                                                                        \
    (int)syscall(SYS_futex, &futex_word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, -1), Nothing, Nothing, \
    Wake, ResetFutex)

#define TIMED_PRIMITIVES(X)                                                                                            \
  X(mutex_timedlock, "mutex", pthread_mutex_timedlock(&mutex, &real_deadline), Nothing, HoldMutex, LetMutexGo,         \
    LetMutexGo)                                                                                                        \
  X(mtx_timedlock_, "mutex", mtx_timedlock(&c11, &real_deadline), Nothing, HoldC11, LetC11Go, LetC11Go)                \
  X(timedrdlock, "rwlock-read", pthread_rwlock_timedrdlock(&rwlock, &real_deadline), Nothing, HoldForWriting,          \
    LetRwlockGo, LetRwlockGo)                                                                                          \
  X(timedwrlock, "rwlock-write", pthread_rwlock_timedwrlock(&rwlock, &real_deadline), Nothing, HoldForReading,         \
    LetRwlockGo, LetRwlockGo)                                                                                          \
  X(sem_timedwait_, "semaphore", sem_timedwait(&semaphore, &real_deadline), Nothing, Nothing, Post, Nothing)           \
  X(cond_timedwait, "condition", pthread_cond_timedwait(&condition, &of_condition, &real_deadline),                    \
    TakeMutexOfCondition, Nothing, Signal, LetMutexOfConditionGo)                                                      \
  X(cnd_timedwait_, "condition", cnd_timedwait(&c11_condition, &c11_of_condition, &real_deadline), TakeC11OfCondition, \
    Nothing, C11Signal, LetC11OfConditionGo)                                                                           \
  X(timedjoin, "join", pthread_timedjoin_np(joined, NULL, &real_deadline), Nothing, Nothing, Nothing, Nothing)         \
  X(futex_wait_for, "futex", (int)syscall(SYS_futex, &futex_word, FUTEX_WAIT_PRIVATE, 0, &how_long, NULL, 0), Nothing, \
    Nothing, Wake, ResetFutex)

#ifdef __GLIBC__
#define GLIBC_PRIMITIVES(X)                                                                                    \
  X(cond_wait_2_2_5, "condition", old_cond_wait(&old_condition, &of_condition), TakeMutexOfCondition, Nothing, \
    OldSignal, LetMutexOfConditionGo)
#define GLIBC_TIMED_PRIMITIVES(X)                                                                                 \
  X(mutex_clocklock, "mutex", pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline), Nothing, HoldMutex,    \
    LetMutexGo, LetMutexGo)                                                                                       \
  X(clockrdlock, "rwlock-read", pthread_rwlock_clockrdlock(&rwlock, CLOCK_MONOTONIC, &deadline), Nothing,         \
    HoldForWriting, LetRwlockGo, LetRwlockGo)                                                                     \
  X(clockwrlock, "rwlock-write", pthread_rwlock_clockwrlock(&rwlock, CLOCK_MONOTONIC, &deadline), Nothing,        \
    HoldForWriting, LetRwlockGo, LetRwlockGo)                                                                     \
  X(sem_clockwait_, "semaphore", sem_clockwait(&semaphore, CLOCK_MONOTONIC, &deadline), Nothing, Nothing, Post,   \
    Nothing)                                                                                                      \
  X(cond_timedwait_2_2_5, "condition", old_cond_timedwait(&old_condition, &of_condition, &real_deadline),         \
    TakeMutexOfCondition, Nothing, OldSignal, LetMutexOfConditionGo)                                              \
  X(cond_clockwait, "condition", pthread_cond_clockwait(&condition, &of_condition, CLOCK_MONOTONIC, &deadline),   \
    TakeMutexOfCondition, Nothing, Signal, LetMutexOfConditionGo)                                                 \
  X(clockjoin, "join", pthread_clockjoin_np(joined, NULL, CLOCK_MONOTONIC, &deadline), Nothing, Nothing, Nothing, \
    Nothing)
#else
#define GLIBC_PRIMITIVES(X)
#define GLIBC_TIMED_PRIMITIVES(X)
#endif

#define DEFINE(name, label, call, before, hold, release, after) \
  KNOWN int name##_free(void) { return call; }                  \
  KNOWN int name##_contended(void) { return call; }             \
  KNOWN int name##_timed_out(void) { return call; }             \
  KNOWN int name##_cancelled(void) { return call; }
PRIMITIVES(DEFINE)
GLIBC_PRIMITIVES(DEFINE)
TIMED_PRIMITIVES(DEFINE)
GLIBC_TIMED_PRIMITIVES(DEFINE)

typedef struct {
  const char *name, *label;
  int (*free)(void), (*contended)(void), (*timed_out)(void), (*cancelled)(void);
  void (*before)(void), (*hold)(void), (*release)(void), (*after)(void);
  int timed;
} Row;
#define ENTRY(name, label, call, before, hold, release, after) \
  {#name, label, name##_free, name##_contended, name##_timed_out, name##_cancelled, before, hold, release, after, 0},
#define TIMED_ENTRY(name, label, call, before, hold, release, after) \
  {#name, label, name##_free, name##_contended, name##_timed_out, name##_cancelled, before, hold, release, after, 1},
static const Row rows[] = {PRIMITIVES(ENTRY) GLIBC_PRIMITIVES(ENTRY) TIMED_PRIMITIVES(TIMED_ENTRY)
                               GLIBC_TIMED_PRIMITIVES(TIMED_ENTRY)};

static int Is(const Row* row, const char* what) { return strstr(row->name, what) != NULL; }

static void SetDeadlines(long ms) {
  real_deadline = In(CLOCK_REALTIME, ms);
  deadline = In(CLOCK_MONOTONIC, ms);
  how_long = (struct timespec){ms / 1000, ms % 1000 * 1000000};
}

static void Say(const Row* row, const char* how, int result, int error, int waits, uint64_t ns) {
  printf("result %s_%s %d %d\n", row->name, how, result, error);
  printf("waits %s_%s %s %d %llu\n", row->name, how, row->label, waits, (unsigned long long)ns);
  fflush(stdout);
}

// ---- Free ----
static void Free(const Row* row) {
  SetDeadlines(10000);
  if (Is(row, "cond") || Is(row, "cnd")) return;  // there is no condition that does not wait
  if (Is(row, "sem")) sem_post(&semaphore);
  if (Is(row, "once_")) {
    once = PTHREAD_ONCE_INIT;
    c11_once = (once_flag)ONCE_FLAG_INIT;
  }
  if (Is(row, "barrier")) {
    pthread_barrier_destroy(&barrier);
    pthread_barrier_init(&barrier, NULL, 1);
  }
  if (Is(row, "thrd_join"))
    StartC11Thread(0);
  else if (Is(row, "join"))
    StartThread(0);
  if (Is(row, "join")) Sleep(20);
  if (Is(row, "futex")) futex_word = 1;
  const int result = row->free(), error = Errno(result);
  row->after();
  if (Is(row, "barrier")) {
    pthread_barrier_destroy(&barrier);
    pthread_barrier_init(&barrier, NULL, 2);
  }
  Say(row, "free", result, error, 0, 0);
}

// ---- Contended ----
static const Row* current;
static pthread_barrier_t held;
static void* Holder(void* unused) {
  current->hold();
  pthread_barrier_wait(&held);
  if (Is(current, "call_once_"))
    RunC11Once();
  else if (Is(current, "once_"))
    RunOnce();
  else
    Sleep(kHoldMs);
  current->release();
  return unused;
}
static void Contended(const Row* row) {
  pthread_t holder;
  current = row;
  once = PTHREAD_ONCE_INIT;
  c11_once = (once_flag)ONCE_FLAG_INIT;
  SetDeadlines(10000);
  if (Is(row, "thrd_join"))
    StartC11Thread(kHoldMs);
  else if (Is(row, "join"))
    StartThread(kHoldMs);
  pthread_create(&holder, NULL, Holder, NULL);
  row->before();
  pthread_barrier_wait(&held);
  if (Is(row, "once_")) Sleep(10);  // the other is at it now
  const uint64_t start = Now();
  const int result = row->contended(), error = Errno(result);
  const uint64_t end = Now();
  row->after();
  pthread_join(holder, NULL);
  Say(row, "contended", result, error, 1, end - start);
}

// ---- Timed out ----
static pthread_barrier_t over;
static void* HoldsOn(void* unused) {
  current->hold();
  pthread_barrier_wait(&held);
  pthread_barrier_wait(&over);
  if (current->hold != Nothing) current->release();
  return unused;
}
static void TimedOut(const Row* row) {
  pthread_t holder;
  current = row;
  if (Is(row, "join")) StartThread(3 * kHoldMs);
  pthread_create(&holder, NULL, HoldsOn, NULL);
  row->before();
  pthread_barrier_wait(&held);
  SetDeadlines(kHoldMs);
  const uint64_t start = Now();
  const int result = row->timed_out(), error = Errno(result);
  const uint64_t end = Now();
  if (Is(row, "cond") || Is(row, "cnd")) row->after();
  pthread_barrier_wait(&over);
  pthread_join(holder, NULL);
  if (Is(row, "join")) pthread_join(joined, NULL);
  Say(row, "timed_out", result, error, 1, end - start);
}

// ---- Cancelled ----
static uint64_t cancel_start, cancel_end;
static void Cancelled(void* unused) {
  cancel_end = Now();
  (void)unused;
  current->after();
}
static void* IsCancelled(void* unused) {
  current->before();
  pthread_cleanup_push(Cancelled, NULL);
  pthread_barrier_wait(&held);
  SetDeadlines(10000);
  cancel_start = Now();
  current->cancelled();
  pthread_cleanup_pop(0);
  return unused;
}
static void Cancel(const Row* row) {
  pthread_t thread;
  void* result;
  current = row;
  if (Is(row, "join")) StartThread(3 * kHoldMs);
  pthread_create(&thread, NULL, IsCancelled, NULL);
  pthread_barrier_wait(&held);
  Sleep(kHoldMs);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  if (Is(row, "join")) pthread_join(joined, NULL);
  Say(row, "cancelled", result == PTHREAD_CANCELED, 0, 1, cancel_end - cancel_start);
}

int main(void) {
  mtx_init(&c11, mtx_timed);
  mtx_init(&c11_of_condition, mtx_plain);
  cnd_init(&c11_condition);
  pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
  sem_init(&semaphore, 0, 0);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_barrier_init(&held, NULL, 2);
  pthread_barrier_init(&over, NULL, 2);
  // One wait before those that are counted: the first one of a process makes its table.
  StartThread(20);
  pthread_join(joined, NULL);
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; ++i) {
    const Row* row = &rows[i];
    Free(row);
    Contended(row);
    if (row->timed) TimedOut(row);
    const int cancellable = Is(row, "cond") || Is(row, "cnd") || Is(row, "sem") || Is(row, "join");
    if (cancellable && !Is(row, "thrd")) Cancel(row);
  }
  return 0;
}
