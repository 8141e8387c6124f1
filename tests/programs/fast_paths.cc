// One fast path, many times over, for counting its instructions.
//   fast_paths PATH ROUNDS
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "known.h"

namespace {

constexpr size_t kRing = 1024;
void* ring[kRing];
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
pthread_mutex_t recursive = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;

void Round(const char* path, size_t i) {
  switch (path[0]) {
    case 'm': {  // malloc
      void* p = malloc(64);
      Use(p);
      free(p);
      break;
    }
    case 'r': {  // ring: 1,024 live blocks of 16 to 1,023 bytes
      free(ring[i % kRing]);
      ring[i % kRing] = malloc(16 + i * 7919 % 1008);
      break;
    }
    case 'c': {  // calloc
      void* p = calloc(4, 16);
      Use(p);
      free(p);
      break;
    }
    case 'n': {  // new
      void* p = ::operator new(64);
      Use(p);
      ::operator delete(p);
      break;
    }
    case 's': {  // sized
      void* p = ::operator new(64);
      Use(p);
      ::operator delete(p, size_t{64});
      break;
    }
    case 'l':  // lock
      pthread_mutex_lock(&mutex);
      pthread_mutex_unlock(&mutex);
      break;
    case 'R':  // Recursive
      pthread_mutex_lock(&recursive);
      pthread_mutex_unlock(&recursive);
      break;
    case 't':  // trylock
      if (pthread_mutex_trylock(&mutex) == 0) pthread_mutex_unlock(&mutex);
      break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const auto rounds = static_cast<size_t>(atol(argv[2]));
  for (size_t i = 0; i < 4 * kRing; ++i) Round(argv[1], i);  // caches of the allocator are warm
  for (size_t i = 0; i < rounds; ++i) Round(argv[1], i);
  return 0;
}
