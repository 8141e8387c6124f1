// Executes every fast path many times, for scripts/fast_path to count under callgrind. warm_NAME brings the allocator's
// caches into a steady state; measured_NAME is counted.
//   fast_paths [NAME...]
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <new>

#include "known.h"

namespace {

constexpr size_t kRing = 1024;
constexpr size_t kRounds = 8192;
void* ring[kRing];
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
const timespec deadline = {INT32_MAX, 0};

struct Path {
  const char* name;
  void (*warm)();
  void (*measured)();
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};

// The body twice, so that callgrind can tell the two by their names.
#define PATH(name, ...)                                                      \
  inline __attribute__((always_inline)) void Loop_##name() {                 \
    for (size_t i = 0; i < kRounds; ++i) __VA_ARGS__                         \
  }                                                                          \
  extern "C" __attribute__((noinline)) void warm_##name() { Loop_##name(); } \
  extern "C" __attribute__((noinline)) void measured_##name() { Loop_##name(); }

PATH(malloc, {
  void* p = malloc(64);
  Use(p);
  free(p);
})
PATH(ring, {  // 1,024 live blocks of 16 to 1,023 bytes
  free(ring[i % kRing]);
  ring[i % kRing] = malloc(16 + i * 7919 % 1008);
})
PATH(calloc, {
  void* p = calloc(4, 16);
  Use(p);
  free(p);
})
PATH(realloc, {  // grows in place, mostly
  void* p = malloc(40);
  Use(p);
  free(realloc(p, 56));
})
PATH(reallocarray, { free(reallocarray(nullptr, 4, 16)); })
PATH(aligned, { free(aligned_alloc(64, 64)); })
PATH(posix, {
  void* p = nullptr;
  if (posix_memalign(&p, 64, 64) == 0) free(p);
})
PATH(usable, {
  void* p = malloc(64);
  Use(p);
  malloc_usable_size(p);
  free(p);
})
PATH(new, {
  void* p = ::operator new(64);
  Use(p);
  ::operator delete(p);
})
PATH(sized, {
  void* p = ::operator new(64);
  Use(p);
  ::operator delete (p, size_t{64});
})
PATH(array, {
  void* p = ::operator new[](64);
  Use(p);
  ::operator delete[](p);
})
PATH(sized_array, {
  void* p = ::operator new[](64);
  Use(p);
  ::operator delete[](p, size_t{64});
})
PATH(nothrow, {
  void* p = ::operator new(64, std::nothrow);
  Use(p);
  ::operator delete(p, std::nothrow);
})
PATH(aligned_new, {
  void* p = ::operator new (64, std::align_val_t{64});
  Use(p);
  ::operator delete (p, std::align_val_t{64});
})
PATH(lock, {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
})
PATH(recursive, {
  pthread_mutex_lock(&recursive);
  pthread_mutex_unlock(&recursive);
})
PATH(trylock, {
  if (pthread_mutex_trylock(&mutex) == 0) pthread_mutex_unlock(&mutex);
})
PATH(timedlock, {
  pthread_mutex_timedlock(&mutex, &deadline);
  pthread_mutex_unlock(&mutex);
})
PATH(clocklock, {
  pthread_mutex_clocklock(&mutex, CLOCK_MONOTONIC, &deadline);
  pthread_mutex_unlock(&mutex);
})

// The C11 functions, while another thread waits for another mutex.
mtx_t c11;  // all zero: a plain one
pthread_mutex_t waited_for = PTHREAD_MUTEX_INITIALIZER;
pthread_t waiter;
void* Wait(void*) {
  pthread_mutex_lock(&waited_for);
  pthread_mutex_unlock(&waited_for);
  return nullptr;
}
void BeginWaiting() {
  pthread_mutex_lock(&waited_for);
  if (pthread_create(&waiter, nullptr, Wait, nullptr) != 0) abort();
  // 2: somebody sleeps, or is about to.
  while (__atomic_load_n(&waited_for.__data.__lock, __ATOMIC_RELAXED) != 2) usleep(1'000);
  usleep(50'000);
}
void EndWaiting() {
  pthread_mutex_unlock(&waited_for);
  pthread_join(waiter, nullptr);
}
// Once nobody waits any more, and has not for a while, all is as it was. (Unlocks of another kind, so that their calls are
// not counted.)
pthread_rwlock_t others = PTHREAD_RWLOCK_INITIALIZER;
void WaitedLongAgo() {
  BeginWaiting();
  EndWaiting();
  timespec begin, now;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    for (size_t i = 0; i < kRounds; ++i) {
      pthread_rwlock_rdlock(&others);
      pthread_rwlock_unlock(&others);
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while (now.tv_sec < begin.tv_sec + 3);
}
PATH(lock_long_after_waiter, {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
})
PATH(mtx_beside_waiter, {
  mtx_lock(&c11);
  mtx_unlock(&c11);
})

// Once a large sample lies where malloc has put it: at an interval of 1 GiB some of these do.
void TakeLargeSamples() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  free(malloc(576 << 20));  // from here on all come from one piece
  for (int i = 0; i < 48; ++i) {
    Use(malloc((64 << 10) + 48));  // so that they do not all lie at one place
    free(malloc(512 << 20));
  }
}
PATH(malloc_beside_large, {
  void* p = malloc(64);
  Use(p);
  free(p);
})
PATH(new_beside_large, {
  void* p = ::operator new(64);
  Use(p);
  ::operator delete(p);
})

#define NAMED(name) \
  { #name, warm_##name, measured_##name }
const Path kPaths[] = {
    NAMED(malloc),
    NAMED(ring),
    NAMED(calloc),
    NAMED(realloc),
    NAMED(reallocarray),
    NAMED(aligned),
    NAMED(posix),
    NAMED(usable),
    NAMED(new),
    NAMED(sized),
    NAMED(array),
    NAMED(sized_array),
    NAMED(nothrow),
    NAMED(aligned_new),
    NAMED(lock),
    NAMED(recursive),
    NAMED(trylock),
    NAMED(timedlock),
    NAMED(clocklock),
    {"lock_long_after_waiter", warm_lock_long_after_waiter, measured_lock_long_after_waiter, WaitedLongAgo},
    {"mtx_beside_waiter", warm_mtx_beside_waiter, measured_mtx_beside_waiter, BeginWaiting, EndWaiting},
    // For good, so these are the last.
    {"malloc_beside_large", warm_malloc_beside_large, measured_malloc_beside_large, TakeLargeSamples},
    {"new_beside_large", warm_new_beside_large, measured_new_beside_large, TakeLargeSamples}};

}  // namespace

int main(int argc, char** argv) {
  free(malloc(3 << 20));  // what is made once is there, as in a program that has run for a while
  for (const Path& path : kPaths) {
    bool wanted = argc == 1;
    for (int i = 1; i < argc; ++i) wanted = wanted || strcmp(argv[i], path.name) == 0;
    if (!wanted) continue;
    if (path.begin != nullptr) path.begin();
    path.warm();
    path.measured();
    if (path.end != nullptr) path.end();
  }
  return 0;
}
