// Live blocks with a known resident part. Prints a line per function:
//
//     resident FUNCTION blocks bytes resident_bytes
//
//   known_resident BLOCKS SMALL [fork | threads | wait | vanish]
//     third_touched   BLOCKS of 1 MiB; the first third was written
//     all_touched     BLOCKS of 1 MiB, written
//     never_touched   BLOCKS of 1 MiB, not written: each has only the page with malloc's header
//     only_read       BLOCKS of 1 MiB, read but not written: the kernel uses one page of zeros for all of them
//     small           SMALL of 100 bytes, written; about eight in a row on each 4 KiB page, between others that were freed
//     given_back      BLOCKS of 1 MiB, written; all but the first half returned to the kernel (MADV_DONTNEED)
//
// fork: a child lives meanwhile, which shares all pages and has written none. threads: each function's blocks in 32 threads.
// wait: prints `ready` and waits for its input to end. vanish: kills itself at the end.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"
#include "resident_ending.h"

enum { kLarge = 1 << 20, kSmall = 100, kThreads = 32 };
static const uintptr_t kPage = 4096;

// What of a block lies on the pages of its first `touched` bytes.
static size_t On(const char* block, size_t bytes, size_t touched) {
  const uintptr_t start = (uintptr_t)block, end = (start + touched + kPage - 1) / kPage * kPage;
  return end - start < bytes ? end - start : bytes;
}

static size_t Touch(char* block, size_t bytes) {
  memset(block, 1, bytes);
  Use(block);
  return On(block, kLarge, bytes);
}

KNOWN static size_t third_touched(void) { return Touch(calloc(1, kLarge), kLarge / 3); }
KNOWN static size_t all_touched(void) { return Touch(calloc(1, kLarge), kLarge); }
KNOWN static size_t never_touched(void) { return On(calloc(1, kLarge), kLarge, 1); }
KNOWN static size_t only_read(void) {
  char* block = calloc(1, kLarge);
  char sum = 0;
  for (size_t i = 0; i < kLarge; i += kPage / 2) sum |= ((volatile char*)block)[i];
  return On(block, kLarge, 1) + (size_t)sum;
}
KNOWN static size_t given_back(void) {
  char* block = calloc(1, kLarge);
  Touch(block, kLarge);
  const uintptr_t half = ((uintptr_t)block + kLarge / 2) / kPage * kPage;
  const uintptr_t end = ((uintptr_t)block + kLarge) / kPage * kPage;
  madvise((void*)half, end - half, MADV_DONTNEED);
  return half - (uintptr_t)block + ((uintptr_t)block + kLarge - end);
}
KNOWN static size_t small(void) {
  memset(malloc(kSmall), 1, kSmall);
  return kSmall;
}

struct Work {
  size_t (*function)(void);
  long blocks;
  size_t resident;
};

static void* Do(void* of) {
  struct Work* work = of;
  free(calloc(1, 1));  // some versions of glibc write to the whole block of an arena's first calloc
  for (long i = 0; i < work->blocks; ++i) work->resident += work->function();
  return NULL;
}

static void Run(const char* name, size_t (*function)(void), long blocks, size_t bytes, int threads) {
  struct Work works[kThreads] = {{0}};
  pthread_t ids[kThreads];
  size_t resident = 0;
  for (int i = 0; i < threads; ++i) {
    works[i] = (struct Work){function, blocks / threads + (i < blocks % threads), 0};
    if (threads == 1)
      Do(&works[i]);
    else if (pthread_create(&ids[i], NULL, Do, &works[i]) != 0)
      abort();
  }
  for (int i = 0; i < threads; ++i) {
    if (threads > 1) pthread_join(ids[i], NULL);
    resident += works[i].resident;
  }
  printf("resident %s %ld %zu %zu\n", name, blocks, (size_t)blocks * bytes, resident);
  fflush(stdout);
}

int main(int argc, char** argv) {
  const long blocks = argc > 1 ? atol(argv[1]) : 4, smalls = argc > 2 ? atol(argv[2]) : 1000;
  const char* mode = argc > 3 ? argv[3] : "";
  const int threads = strcmp(mode, "threads") == 0 ? kThreads : 1;
  prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);  // of a huge page all is resident
  Run("third_touched", third_touched, blocks, kLarge, threads);
  Run("all_touched", all_touched, blocks, kLarge, threads);
  Run("never_touched", never_touched, blocks, kLarge, threads);
  Run("only_read", only_read, blocks, kLarge, threads);
  Run("given_back", given_back, blocks, kLarge, threads);
  Run("small", small, smalls, kSmall, threads);
  pid_t child = 0;
  if (strcmp(mode, "fork") == 0 && (child = fork()) == 0) {
    Run("in_child", all_touched, 1, kLarge, 1);
    raise(SIGSTOP);
    _exit(0);
  }
  return EndSeen(child, strcmp(mode, "wait") == 0, strcmp(mode, "vanish") == 0);
}
