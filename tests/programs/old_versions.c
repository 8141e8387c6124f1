// Calls functions that glibc has in several versions, like old and new programs. Each works, and prints which library it
// came from.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>

int old_trylock(pthread_mutex_t*);
int old_timedlock(pthread_mutex_t*, const struct timespec*);
int old_clocklock(pthread_mutex_t*, clockid_t, const struct timespec*);
int old_dlclose(void*);
int old_mtx_lock(mtx_t*);
int old_mtx_trylock(mtx_t*);
int old_mtx_timedlock(mtx_t*, const struct timespec*);
int old_mtx_unlock(mtx_t*);
__asm__(".symver old_trylock, pthread_mutex_trylock@GLIBC_2.2.5");
__asm__(".symver old_timedlock, pthread_mutex_timedlock@GLIBC_2.2.5");
__asm__(".symver old_clocklock, pthread_mutex_clocklock@GLIBC_2.30");
__asm__(".symver old_dlclose, dlclose@GLIBC_2.2.5");
__asm__(".symver old_mtx_lock, mtx_lock@GLIBC_2.28");
__asm__(".symver old_mtx_trylock, mtx_trylock@GLIBC_2.28");
__asm__(".symver old_mtx_timedlock, mtx_timedlock@GLIBC_2.28");
__asm__(".symver old_mtx_unlock, mtx_unlock@GLIBC_2.28");

// The rest, by address alone; lock_table calls the conditions of 2.2.5.
#define OTHERS(X)                        \
  X(pthread_rwlock_rdlock, "2.2.5")      \
  X(pthread_rwlock_wrlock, "2.2.5")      \
  X(pthread_rwlock_timedrdlock, "2.2.5") \
  X(pthread_rwlock_timedwrlock, "2.2.5") \
  X(pthread_rwlock_clockrdlock, "2.30")  \
  X(pthread_rwlock_clockwrlock, "2.30")  \
  X(pthread_rwlock_unlock, "2.2.5")      \
  X(pthread_cond_wait, "2.2.5")          \
  X(pthread_cond_timedwait, "2.2.5")     \
  X(pthread_cond_signal, "2.2.5")        \
  X(pthread_cond_broadcast, "2.2.5")     \
  X(pthread_cond_clockwait, "2.30")      \
  X(cnd_wait, "2.28")                    \
  X(cnd_timedwait, "2.28")               \
  X(cnd_signal, "2.28")                  \
  X(cnd_broadcast, "2.28")               \
  X(pthread_spin_lock, "2.2.5")          \
  X(pthread_spin_unlock, "2.2.5")        \
  X(sem_wait, "2.2.5")                   \
  X(sem_timedwait, "2.2.5")              \
  X(sem_clockwait, "2.30")               \
  X(pthread_barrier_wait, "2.2.5")       \
  X(pthread_once, "2.2.5")               \
  X(call_once, "2.28")                   \
  X(pthread_join, "2.2.5")               \
  X(pthread_timedjoin_np, "2.3.3")       \
  X(pthread_clockjoin_np, "2.31")        \
  X(thrd_join, "2.28")
#define DECLARE(name, version) \
  int old_##name(void);        \
  __asm__(".symver old_" #name ", " #name "@GLIBC_" version);
OTHERS(DECLARE)

static void From(const char* name, void* function) {
  Dl_info info;
  const char* library = dladdr(function, &info) ? strrchr(info.dli_fname, '/') : NULL;
  fprintf(stderr, "%s from %s\n", name, library ? library + 1 : "nowhere");
}

int main(void) {
  From("trylock 2.2.5", (void*)old_trylock);
  From("timedlock 2.2.5", (void*)old_timedlock);
  From("clocklock 2.30", (void*)old_clocklock);
  From("dlclose 2.2.5", (void*)old_dlclose);
  From("mtx_lock 2.28", (void*)old_mtx_lock);
  From("mtx_trylock 2.28", (void*)old_mtx_trylock);
  From("mtx_timedlock 2.28", (void*)old_mtx_timedlock);
  From("mtx_unlock 2.28", (void*)old_mtx_unlock);
  From("mtx_lock", (void*)mtx_lock);
  From("mtx_unlock", (void*)mtx_unlock);
#define SAY(name, version) From(#name " " version, (void*)old_##name);
  OTHERS(SAY)
  From("cond_wait", (void*)pthread_cond_wait);
  From("rwlock_rdlock", (void*)pthread_rwlock_rdlock);
  From("trylock", (void*)pthread_mutex_trylock);
  From("timedlock", (void*)pthread_mutex_timedlock);
  From("clocklock", (void*)pthread_mutex_clocklock);
  From("dlclose", (void*)dlclose);
  From("lock", (void*)pthread_mutex_lock);
  From("unlock", (void*)pthread_mutex_unlock);

  pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  const struct timespec past = {0, 0};
  printf("%d", old_trylock(&mutex));
  printf(" %d", old_trylock(&mutex));
  printf(" %d", old_timedlock(&mutex, &past));
  printf(" %d", old_clocklock(&mutex, CLOCK_MONOTONIC, &past));
  printf(" %d", pthread_mutex_unlock(&mutex));
  mtx_t c11;
  mtx_init(&c11, mtx_timed);
  printf(" %d", old_mtx_lock(&c11));
  printf(" %d", old_mtx_trylock(&c11));
  printf(" %d", old_mtx_timedlock(&c11, &past));
  printf(" %d", old_mtx_unlock(&c11));
  printf(" %d\n", old_dlclose(dlopen("libm.so.6", RTLD_NOW)));
  return 0;
}
