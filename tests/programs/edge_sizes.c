// Extreme sizes, failures, and errno: all as without the library.
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "known.h"

static volatile size_t ptrdiff_max = PTRDIFF_MAX, size_max = SIZE_MAX, half = SIZE_MAX / 2 + 2;

KNOWN void* of_size_zero(void) { return malloc(0); }
KNOWN void* zeroed_of_size_zero(void) { return calloc(0, 8); }
KNOWN void* too_large(size_t size) { return malloc(size); }
KNOWN void* overflow(size_t a, size_t b) { return calloc(a, b); }
KNOWN void* wrong_alignment(size_t alignment) { return aligned_alloc(alignment, 64); }
KNOWN int wrong_posix(size_t alignment, size_t size, void** p) { return posix_memalign(p, alignment, size); }
KNOWN void* page_overflow(size_t size) { return pvalloc(size); }

static void Say(const char* what, void* p) { printf("%s: %s, errno %d\n", what, p ? "a block" : "null", errno); }

int main(void) {
  errno = 77;
  void* zero = of_size_zero();
  Say("malloc(0)", zero);
  errno = 77;
  Say("calloc(0, 8)", zeroed_of_size_zero());
  errno = 77;
  Say("malloc(PTRDIFF_MAX)", too_large(ptrdiff_max));
  errno = 77;
  Say("malloc(PTRDIFF_MAX + 1)", too_large(ptrdiff_max + 1));
  errno = 77;
  Say("malloc(SIZE_MAX)", too_large(size_max));
  errno = 77;
  Say("calloc overflow", overflow(half, 2));
  errno = 77;
  Say("calloc overflow", overflow(size_max, size_max));
  errno = 77;
  Say("aligned_alloc(3)", wrong_alignment(3));
  errno = 77;
  Say("aligned_alloc(huge)", wrong_alignment(size_max / 2 + 1));
  errno = 77;
  void* p = (void*)1;
  const int result = wrong_posix(3, 64, &p);
  printf("posix_memalign(3): %d, pointer %s, errno %d\n", result, p == (void*)1 ? "untouched" : "changed", errno);
  errno = 77;
  const int full = wrong_posix(64, ptrdiff_max, &p);
  printf("posix_memalign(huge): %d, pointer %s, errno %d\n", full, p == (void*)1 ? "untouched" : "changed", errno);
  errno = 77;
  Say("pvalloc(SIZE_MAX)", page_overflow(size_max));
  errno = 77;
  Say("memalign(0)", memalign(0, 10));
  errno = 77;
  free(zero);
  printf("free: errno %d\n", errno);
  errno = 77;
  free(malloc(5000000));
  printf("free of a mapped block: errno %d\n", errno);

  Expect("of_size_zero", 1, 0, 0, 0);
  Expect("zeroed_of_size_zero", 1, 0, 1, 0);
  Expect("too_large", 0, 0, 0, 0);
  Expect("overflow", 0, 0, 0, 0);
  Expect("wrong_posix", 0, 0, 0, 0);
  Expect("page_overflow", 0, 0, 0, 0);
  return 0;
}
