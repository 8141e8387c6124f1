// Loops for scripts/arm64 --count: fast_paths PATH ROUNDS.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

namespace {

void* volatile kept;
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

void Malloc() {
  kept = malloc(64);
  free(kept);
}
void Calloc() {
  kept = calloc(1, 64);
  free(kept);
}
void New() {
  kept = ::operator new(64);
  ::operator delete(kept);
}
void Array() {
  kept = ::operator new[](64);
  ::operator delete[](kept);
}
void Lock() {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
}
void TryLock() {
  if (pthread_mutex_trylock(&mutex) == 0) pthread_mutex_unlock(&mutex);
}

struct Path {
  const char* name;
  void (*round)();
};
constexpr Path kPaths[] = {{"malloc", Malloc}, {"calloc", Calloc}, {"new", New},
                           {"array", Array},   {"lock", Lock},     {"trylock", TryLock}};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  for (const Path& path : kPaths) {
    if (strcmp(path.name, argv[1]) != 0) continue;
    for (long rounds = atol(argv[2]); rounds > 0; --rounds) path.round();
    return 0;
  }
  return 2;
}
