// Calls jemalloc, linked in under names with a prefix (PREFIX), as redis and Rust crates have it: every function that
// allocates or frees. glibc's malloc is beside it.
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

#define JOINED2(prefix, name) prefix##name
#define JOINED(prefix, name) JOINED2(prefix, name)
#define OF(name) JOINED(PREFIX, name)

void* OF(malloc)(size_t);
void* OF(calloc)(size_t, size_t);
void* OF(realloc)(void*, size_t);
void OF(free)(void*);
int OF(posix_memalign)(void**, size_t, size_t);
void* OF(aligned_alloc)(size_t, size_t);
void* OF(memalign)(size_t, size_t);
void* OF(valloc)(size_t);
void* OF(mallocx)(size_t, int);
void* OF(rallocx)(void*, size_t, int);
size_t OF(xallocx)(void*, size_t, size_t, int);
void OF(dallocx)(void*, int);
void OF(sdallocx)(void*, size_t, int);
size_t OF(malloc_usable_size)(const void*);

static long wrong;

KNOWN void* by_malloc(size_t bytes) { return OF(malloc)(bytes); }
KNOWN void* by_calloc(size_t count, size_t each) { return OF(calloc)(count, each); }
KNOWN void* by_realloc(void* block, size_t bytes) { return OF(realloc)(block, bytes); }
KNOWN void* by_posix_memalign(size_t bytes) {
  void* block = NULL;
  wrong += OF(posix_memalign)(&block, 256, bytes) != 0;
  return block;
}
KNOWN void* by_aligned_alloc(size_t bytes) { return OF(aligned_alloc)(128, bytes); }
KNOWN void* by_memalign(size_t bytes) { return OF(memalign)(512, bytes); }
KNOWN void* by_valloc(size_t bytes) { return OF(valloc)(bytes); }
KNOWN void* by_mallocx(size_t bytes) { return OF(mallocx)(bytes, 6); }  // 2^6 is the alignment
KNOWN void* by_rallocx(void* block, size_t bytes) { return OF(rallocx)(block, bytes, 0); }
KNOWN size_t by_xallocx(void* block, size_t bytes) { return OF(xallocx)(block, bytes, 0, 0); }
KNOWN void* by_glibc(size_t bytes) { return malloc(bytes); }

static void Check(void* block, size_t alignment) { wrong += block == NULL || (uintptr_t)block % alignment != 0; }

int main(void) {
  enum { kCount = 200 };
  for (int i = 0; i < kCount; ++i) {
    // Every other block is freed.
    char* blocks[] = {by_malloc(100),         by_calloc(7, 43),      by_realloc(NULL, 50),
                      by_posix_memalign(500), by_aligned_alloc(256), by_memalign(1000),
                      by_valloc(600),         by_mallocx(333),       by_mallocx(300)};
    const size_t alignments[] = {16, 16, 16, 256, 128, 512, 4096, 64, 64};
    for (int k = 0; k < 9; ++k) {
      Check(blocks[k], alignments[k]);
      if (k != 1) memset(blocks[k], i, 50);
    }
    for (int k = 0; k < 301; ++k) wrong += blocks[1][k] != 0;
    blocks[2] = by_realloc(blocks[2], 7000);
    blocks[7] = by_rallocx(blocks[7], 20000);
    for (int k = 0; k < 50; ++k) wrong += blocks[2][k] != (char)i || blocks[7][k] != (char)i;
    const size_t room = OF(malloc_usable_size)(blocks[8]);
    wrong += by_xallocx(blocks[8], room) != room;
    char* other = by_glibc(70);
    Check(other, 16);
    if (i % 2 == 0) continue;
    for (int k = 0; k < 7; ++k) OF(free)(blocks[k]);
    OF(dallocx)(blocks[7], 0);
    OF(sdallocx)(blocks[8], room, 0);
    free(other);
  }
  const size_t all = kCount, half = kCount / 2;
  Expect("by_malloc", all, all * 100, half, half * 100);
  Expect("by_calloc", all, all * 301, half, half * 301);
  Expect("by_realloc", 2 * all, all * 7050, half, half * 7000);
  Expect("by_posix_memalign", all, all * 500, half, half * 500);
  Expect("by_aligned_alloc", all, all * 256, half, half * 256);
  Expect("by_memalign", all, all * 1000, half, half * 1000);
  Expect("by_valloc", all, all * 600, half, half * 600);
  Expect("by_mallocx", 2 * all, all * 633, 0, 0);
  Expect("by_rallocx", all, all * 20000, half, half * 20000);
  Expect("by_xallocx", all, all * 320, half, half * 320);
  Expect("by_glibc", all, all * 70, half, half * 70);
  printf("wrong %ld\n", wrong);
  return wrong != 0;
}
