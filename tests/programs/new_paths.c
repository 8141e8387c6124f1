// Threads that allocate on ever new call paths, so that the index of stacks grows all the time. Another thread frees half of
// the blocks. Prints how many blocks each path's function has allocated: all of them are freed at the end.
//     new_paths THREADS PATHS [fork]
//     fork  the main thread forks meanwhile, up to 20 times; each child runs a few paths
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

enum { kBits = 18, kHanded = 64 };

static _Atomic(void*) handed[kHanded];
static atomic_int running;

KNOWN void* make_block(size_t size) { return malloc(size); }

static size_t SizeOf(uint32_t path) { return path % 7 * 24 + 8; }

KNOWN void left(uint32_t path, int depth, void** made);
KNOWN void right(uint32_t path, int depth, void** made) {
  if (depth == 0)
    *made = make_block(SizeOf(path));
  else
    ((path >> (depth - 1) & 1) ? right : left)(path, depth - 1, made);
  __asm__ volatile("");
}
KNOWN void left(uint32_t path, int depth, void** made) {
  if (depth == 0)
    *made = make_block(SizeOf(path));
  else
    ((path >> (depth - 1) & 1) ? right : left)(path, depth - 1, made);
  __asm__ volatile("");
}

static uint32_t paths;

static void* Works(void* argument) {
  const uint32_t me = (uint32_t)(uintptr_t)argument;
  for (uint32_t i = 0; i < paths; ++i) {
    const uint32_t path = (i * 2654435761u + me * 977) % (1u << kBits);
    void* block;
    left(path, kBits, &block);
    if (i % 2) block = atomic_exchange(&handed[(i / 2) % kHanded], block);
    free(block);
  }
  --running;
  return NULL;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int threads = atoi(argv[1]);
  paths = (uint32_t)atol(argv[2]);
  const char* mode = argc > 3 ? argv[3] : "";
  pthread_t* started = malloc((size_t)threads * sizeof *started);
  running = threads;
  for (int i = 0; i < threads; ++i) pthread_create(&started[i], NULL, Works, (void*)(uintptr_t)i);
  if (strcmp(mode, "fork") == 0) {
    for (int i = 0; i < 20 && running > 0; ++i) {
      usleep(2000);
      const pid_t child = fork();
      if (child == 0) {
        for (uint32_t path = 0; path < 6000; ++path) {
          void* block;
          left(path * 31, kBits, &block);
          free(block);
        }
        _exit(7);
      }
      int status = 0;
      if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7) return 1;
    }
  }
  for (int i = 0; i < threads; ++i) pthread_join(started[i], NULL);
  free(started);
  for (int i = 0; i < kHanded; ++i) free(handed[i]);
  size_t bytes = 0;
  for (uint32_t me = 0; me < (uint32_t)threads; ++me) {
    for (uint32_t i = 0; i < paths; ++i) bytes += SizeOf((i * 2654435761u + me * 977) % (1u << kBits));
  }
  Expect("make_block", (size_t)threads * paths, bytes, 0, 0);
  return 0;
}
