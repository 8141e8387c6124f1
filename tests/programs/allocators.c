// Calls every C entry point that returns memory, each from its own function; alignment, contents and usable size as bare.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

#ifndef __GLIBC__
#define pvalloc(bytes) valloc(((bytes) + 4095) / 4096 * 4096)
#endif

// An allocator in the executable may lack pvalloc, and may not know the blocks of libc's.
static int HasPvalloc(void) {
#ifdef __GLIBC__
  Dl_info of_malloc, of_pvalloc;
  return dladdr((void*)(uintptr_t)malloc, &of_malloc) != 0 && dladdr((void*)(uintptr_t)pvalloc, &of_pvalloc) != 0 &&
         of_malloc.dli_fbase == of_pvalloc.dli_fbase;
#else
  return 1;
#endif
}

static void Check(const char* what, void* p, size_t alignment) {
  printf("%s: %s, aligned %s, usable %zu\n", what, p ? "a block" : "null", (uintptr_t)p % alignment == 0 ? "yes" : "no",
         malloc_usable_size(p));
}

KNOWN void* by_malloc(void) { return malloc(1001); }
KNOWN void* by_calloc(void) { return calloc(13, 17); }
KNOWN void* by_realloc(void) { return realloc(NULL, 123); }
KNOWN void* by_reallocarray(void) { return reallocarray(NULL, 11, 12); }
KNOWN void* by_posix_memalign(void) {
  void* p = NULL;
  const int result = posix_memalign(&p, 256, 777);
  printf("posix_memalign returned %d\n", result);
  return p;
}
KNOWN void* by_aligned_alloc(void) { return aligned_alloc(512, 1024); }
KNOWN void* by_memalign(void) { return memalign(1024, 555); }
KNOWN void* by_valloc(void) { return valloc(999); }
KNOWN void* by_pvalloc(void) { return pvalloc(4097); }
KNOWN void* by_strdup(void) { return strdup("nineteen characters"); }
KNOWN void freed_again(void) {
  free(malloc(50));
  free(calloc(2, 25));
  free(memalign(64, 50));
  free(valloc(50));
  free(NULL);
}

int main(void) {
  Check("malloc", by_malloc(), 16);
  char* zeroed = by_calloc();
  Check("calloc", zeroed, 16);
  int sum = 0;
  for (int i = 0; i < 13 * 17; ++i) sum += zeroed[i];
  printf("calloc's sum %d\n", sum);
  Check("realloc", by_realloc(), 16);
  Check("reallocarray", by_reallocarray(), 16);
  Check("posix_memalign", by_posix_memalign(), 256);
  Check("aligned_alloc", by_aligned_alloc(), 512);
  Check("memalign", by_memalign(), 1024);
  Check("valloc", by_valloc(), 4096);
  if (HasPvalloc()) Check("pvalloc", by_pvalloc(), 4096);
  Check("strdup", by_strdup(), 16);
  printf("usable size of null %zu\n", malloc_usable_size(NULL));
  freed_again();

  Expect("by_malloc", 1, 1001, 1, 1001);
  Expect("by_calloc", 1, 221, 1, 221);
  Expect("by_realloc", 1, 123, 1, 123);
  Expect("by_reallocarray", 1, 132, 1, 132);
  Expect("by_posix_memalign", 1, 777, 1, 777);
  Expect("by_aligned_alloc", 1, 1024, 1, 1024);
  Expect("by_memalign", 1, 555, 1, 555);
  Expect("by_valloc", 1, 999, 1, 999);
#ifdef __GLIBC__
  if (HasPvalloc()) Expect("by_pvalloc", 1, 4097, 1, 4097);
#endif
  Expect("freed_again", 4, 200, 0, 0);
  return 0;
}
