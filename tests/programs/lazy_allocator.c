// An allocator below the profiler with blocks of 1 MiB that have addresses and no memory, for a program that never touches
// them: a million live samples at the default interval without a large machine. All other blocks are glibc's.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>

extern void* __libc_malloc(size_t);
extern void* __libc_calloc(size_t, size_t);
extern void* __libc_realloc(void*, size_t);
extern void __libc_free(void*);
extern void* __libc_memalign(size_t, size_t);

enum { kLarge = 1 << 20 };
#define kFirst ((uintptr_t)1 << 44)
#define kEnd ((uintptr_t)6 << 43)
static uintptr_t next = kFirst;

static int IsLarge(const void* block) { return (uintptr_t)block >= kFirst && (uintptr_t)block < kEnd; }

static void* Large(size_t alignment, size_t bytes) {
  const uintptr_t block = (next + alignment - 1) / alignment * alignment;
  // Anywhere, as in a heap of blocks of many sizes.
  static uint64_t random = 1;
  random = random * 6364136223846793005u + 1442695040888963407u;
  next = block + bytes + (random >> 40) % 65536 * 16;
  return (void*)block;
}

void* malloc(size_t bytes) { return bytes == kLarge ? Large(16, bytes) : __libc_malloc(bytes); }
void* memalign(size_t alignment, size_t bytes) {
  return bytes == kLarge ? Large(alignment, bytes) : __libc_memalign(alignment, bytes);
}
void free(void* block) {
  if (!IsLarge(block)) __libc_free(block);
}
void* calloc(size_t count, size_t each) { return __libc_calloc(count, each); }
void* realloc(void* block, size_t bytes) { return IsLarge(block) ? NULL : __libc_realloc(block, bytes); }
size_t malloc_usable_size(void* block) {
  return IsLarge(block) ? kLarge : block ? ((size_t*)block)[-1] / 16 * 16 - 8 : 0;
}
