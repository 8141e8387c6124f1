// Allocates and frees without end, and counts its own calls in a file that the test maps as well, so that its work is known
// even after it is killed. Two threads, a page of counters each.
//   shared_counts FILE
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "known.h"

struct Counts {  // each is raised after the call returned; `begun` before it
  _Atomic uint64_t allocs_begun, allocs, alloc_bytes, frees_begun, frees, free_bytes;
  char rest[4096 - 48];
};

enum { kThreads = 2, kHeld = 512 };
static struct Counts* counts;

KNOWN void* counted_allocation(size_t size) { return malloc(size); }

static void* Work(void* argument) {
  struct Counts* mine = counts + (size_t)argument;
  void* held[kHeld] = {0};
  size_t sizes[kHeld] = {0};
  for (uint64_t i = 0;; ++i) {
    const size_t slot = i % kHeld;
    if (held[slot]) {
      atomic_fetch_add(&mine->frees_begun, 1);
      free(held[slot]);
      atomic_fetch_add(&mine->frees, 1);
      atomic_fetch_add(&mine->free_bytes, sizes[slot]);
    }
    sizes[slot] = i % 97 + 1;
    atomic_fetch_add(&mine->allocs_begun, 1);
    held[slot] = counted_allocation(sizes[slot]);
    atomic_fetch_add(&mine->allocs, 1);
    atomic_fetch_add(&mine->alloc_bytes, sizes[slot]);
  }
  return NULL;
}

int main(int argc, char** argv) {
  const int fd = open(argc > 1 ? argv[1] : "", O_RDWR);
  if (fd < 0) return 1;
  counts = mmap(NULL, kThreads * sizeof(struct Counts), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (counts == MAP_FAILED) return 1;
  pthread_t other;
  pthread_create(&other, NULL, Work, (void*)1);
  Work((void*)0);
  return 0;
}
