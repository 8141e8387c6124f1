// A plugin with an allocator that it keeps for itself. FORM: hidden, its malloc is not exported; symbolic, the linker
// binds the plugin's calls to its own malloc (-Bsymbolic); protected, the same by visibility; named, the functions have
// names of mimalloc.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HIDDEN 1
#define SYMBOLIC 2
#define NAMED 3
#define PROTECTED 4
#if FORM == HIDDEN
#define OWN __attribute__((visibility("hidden"), noinline))
#elif FORM == PROTECTED
#define OWN __attribute__((visibility("protected"), noinline))
#else
#define OWN __attribute__((noinline))
#endif
#if FORM == NAMED
#define malloc mi_heap_malloc
#define free mi_free
#endif

static char* room;
static size_t used;

OWN void* malloc(size_t bytes) {
  if (room == NULL) room = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* block = room + used;
  used += (bytes + 15) / 16 * 16;
  return block;
}
OWN void free(void* block) {
  if (block == room) madvise(room, 1 << 20, MADV_DONTNEED);
}

void Work(void) {
  for (int i = 0; i < 10; ++i) free(malloc(100));
  strdup("taken from libc, which is seen");
}
