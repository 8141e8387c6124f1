// Calls an allocator's functions under its own names: own_names_jemalloc, own_names_mimalloc, own_names_tcmalloc. Prints
// what the heap profile must contain at interval 1, and whether a program that looks up the name finds the allocator.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <string.h>

#include "known.h"

enum { kCount = 100 };
static void* blocks[kCount] __attribute__((unused));

#ifdef JEMALLOC
void* mallocx(size_t, int) __attribute__((weak));
void* rallocx(void*, size_t, int);
size_t xallocx(void*, size_t, size_t, int);
void dallocx(void*, int);
void sdallocx(void*, size_t, int);
size_t nallocx(size_t, int);
size_t sallocx(const void*, int);
#define FIRST "mallocx"
enum { kAlign4096 = 12 };

KNOWN void* allocate(size_t bytes) { return mallocx(bytes, 0); }
KNOWN void* allocate_aligned(size_t bytes) { return mallocx(bytes, kAlign4096); }
KNOWN void* reallocate(void* block, size_t bytes) { return rallocx(block, bytes, 0); }
KNOWN void* short_lived(size_t bytes) { return mallocx(bytes, 0); }
KNOWN void* grown(void* block, size_t bytes) { return rallocx(block, bytes, 0); }
KNOWN size_t grown_in_place(void* block, size_t bytes) { return xallocx(block, bytes, 0, 0); }
KNOWN size_t resize(void* block, size_t bytes) { return xallocx(block, bytes, 0, 0); }
static void Free(void* block) { dallocx(block, 0); }
static void FreeSized(void* block, size_t bytes) { sdallocx(block, bytes, 0); }
static void (*volatile free_in_data)(void*, int) = dallocx;
static void FreeByPointer(void* block) { free_in_data(block, 0); }
static int IsAsIs(void) {
  void* block = mallocx(100, 0);
  const int same = sallocx(block, 0) == nallocx(100, 0) && free_in_data == dallocx;
  sdallocx(block, 100, 0);
  return same && mallocx != NULL;
}
#elif defined(MIMALLOC)
void* mi_malloc(size_t) __attribute__((weak));
void* mi_malloc_aligned(size_t, size_t);
void* mi_realloc(void*, size_t);
void mi_free(void*);
void mi_free_size(void*, size_t);
#define FIRST "mi_malloc"
KNOWN void* allocate(size_t bytes) { return mi_malloc(bytes); }
KNOWN void* allocate_aligned(size_t bytes) { return mi_malloc_aligned(bytes, 4096); }
KNOWN void* reallocate(void* block, size_t bytes) { return mi_realloc(block, bytes); }
static void Free(void* block) { mi_free(block); }
static void FreeSized(void* block, size_t bytes) { mi_free_size(block, bytes); }
static void (*volatile free_in_data)(void*) = mi_free;
static void FreeByPointer(void* block) { free_in_data(block); }
static int IsAsIs(void) { return mi_malloc != NULL && free_in_data == mi_free; }
#define OTHER_FORMS
void* mi_new_n(size_t, size_t);
void* mi_calloc_aligned(size_t, size_t, size_t);
void* mi_rezalloc(void*, size_t);
void* mi_recalloc(void*, size_t, size_t);
void* mi_realloc_aligned(void*, size_t, size_t);
char* mi_strdup(const char*);
void mi_cfree(void*);
KNOWN void* other_allocate(size_t bytes) { return mi_new_n(2, bytes); }
KNOWN void* other_allocate_aligned(size_t bytes) { return mi_calloc_aligned(3, bytes, 64); }
KNOWN void* other_copy(const char* text) { return mi_strdup(text); }
KNOWN void* other_reallocate(void* block, size_t bytes) {
  return mi_realloc_aligned(mi_recalloc(mi_rezalloc(block, bytes), 2, bytes), 3 * bytes, 64);
}
static void FreeOthers(void) {
  mi_cfree(other_allocate(50));
  Expect("other_allocate", 1, 100, 0, 0);
  mi_free(other_allocate_aligned(50));
  Expect("other_allocate_aligned", 1, 150, 0, 0);
  void* text = other_copy("123456789");
  Expect("other_copy", 1, 10, 1, 10);
  Use(other_reallocate(text, 1000));
  Expect("other_copy", 1, 10, 0, 0);
  Expect("other_reallocate", 3, 6000, 1, 3000);
}
#elif defined(TCMALLOC)
void* tc_malloc(size_t) __attribute__((weak));
void* tc_memalign(size_t, size_t);
void* tc_realloc(void*, size_t);
void tc_free(void*);
void tc_free_sized(void*, size_t);
#define FIRST "tc_malloc"
KNOWN void* allocate(size_t bytes) { return tc_malloc(bytes); }
KNOWN void* allocate_aligned(size_t bytes) { return tc_memalign(4096, bytes); }
KNOWN void* reallocate(void* block, size_t bytes) { return tc_realloc(block, bytes); }
static void Free(void* block) { tc_free(block); }
static void FreeSized(void* block, size_t bytes) { tc_free_sized(block, bytes); }
static void (*volatile free_in_data)(void*) = tc_free;
static void FreeByPointer(void* block) { free_in_data(block); }
static int IsAsIs(void) { return tc_malloc != NULL && free_in_data == tc_free; }
#define OTHER_FORMS
void* tc_new_nothrow(size_t, const void*);
void* tc_newarray_aligned(size_t, size_t);
void tc_delete_nothrow(void*, const void*);
void tc_deletearray_sized_aligned(void*, size_t, size_t);
KNOWN void* other_allocate(size_t bytes) { return tc_new_nothrow(bytes, ""); }
KNOWN void* other_allocate_aligned(size_t bytes) { return tc_newarray_aligned(bytes, 64); }
static void FreeOthers(void) {
  tc_delete_nothrow(other_allocate(50), "");
  Expect("other_allocate", 1, 50, 0, 0);
  tc_deletearray_sized_aligned(other_allocate_aligned(50), 50, 64);
  Expect("other_allocate_aligned", 1, 50, 0, 0);
}
#else
void* mallocx(size_t, int) __attribute__((weak));
void* mi_malloc(size_t) __attribute__((weak));
void* tc_malloc(size_t) __attribute__((weak));
#define FIRST "mallocx"
static int IsAsIs(void) {
  return mallocx == NULL && mi_malloc == NULL && tc_malloc == NULL && dlsym(RTLD_DEFAULT, "sdallocx") == NULL;
}
#endif

int main(void) {
  printf("found %d, as it is %d\n", dlsym(RTLD_DEFAULT, FIRST) != NULL, IsAsIs());
#if defined(JEMALLOC) || defined(MIMALLOC) || defined(TCMALLOC)
  for (int i = 0; i < kCount; ++i) memset(blocks[i] = allocate(1000), i, 1000);
  for (int i = 0; i < kCount; i += 2) Free(blocks[i]);
  for (int i = 1; i < kCount; i += 4) i % 8 == 1 ? FreeSized(blocks[i], 1000) : FreeByPointer(blocks[i]);
  // 25 are left, and 5 of them are reallocated.
  for (int i = 3; i < 23; i += 4) memset(blocks[i] = reallocate(blocks[i], 5000), 1, 5000);
  Expect("allocate", kCount, 100000, 20, 20000);
  Expect("reallocate", 5, 25000, 5, 25000);
#ifdef OTHER_FORMS
  FreeOthers();
#endif
  void* aligned = allocate_aligned(3000);
  Use(aligned);
  Expect("allocate_aligned", (size_t)aligned % 4096 == 0, 3000, 1, 3000);
#ifndef JEMALLOC  // rallocx accepts no null pointer
  if (reallocate(NULL, 77) == NULL) return 1;
  Expect("reallocate", 6, 25077, 6, 25077);
#else
  // 5,000 bytes are of a class of 5,120: as large as that in place.
  if (resize(blocks[3], 5100) < 5100) return 1;
  Expect("reallocate", 5, 25000, 4, 20000);
  Expect("resize", 1, 5100, 1, 5100);
  // A short life that is not a temporary's: the block is freed at once, but by a reallocation.
  for (int i = 0; i < 10; ++i) dallocx(grown(short_lived(1000), 20000), 0);
  for (int i = 0; i < 10; ++i) {
    void* block = short_lived(5000);  // of a class of 5,120
    if (grown_in_place(block, 5100) < 5100) return 1;
    dallocx(block, 0);
  }
#endif
#endif
  return 0;
}
