// The four cases of realloc, and its forms without a block. Each counts the free of the old block, then the new one.
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

static volatile size_t huge = PTRDIFF_MAX;

KNOWN void* first_block(size_t size) { return malloc(size); }
KNOWN void* shrink_in_place(void* p) { return realloc(p, 500); }
KNOWN void* grow_and_move(void* p) { return realloc(p, 300000); }
KNOWN void* grow_large(void* p) { return realloc(p, 3000000); }
KNOWN void* fail_to_grow(void* p) { return realloc(p, huge); }
KNOWN void* size_zero(void* p) { return realloc(p, 0); }
KNOWN void* from_nothing(void) { return realloc(NULL, 77); }
KNOWN void* survivor(void) { return malloc(4000); }
KNOWN void* array_of(void* p, size_t n, size_t size) { return reallocarray(p, n, size); }

int main(void) {
  char* p = first_block(1000);
  memset(p, 'a', 1000);
  char* wall = first_block(64);  // so that p cannot grow where it is
  char* q = shrink_in_place(p);
  printf("shrink: contents %s\n", q[0] == 'a' && q[499] == 'a' ? "kept" : "lost");
  q = grow_and_move(q);
  printf("grow: contents %s\n", q[0] == 'a' && q[499] == 'a' ? "kept" : "lost");
  memset(q, 'b', 300000);
  q = grow_large(q);
  printf("grow by mremap: contents %s\n", q[0] == 'b' && q[299999] == 'b' ? "kept" : "lost");
  Use(wall);

  char* s = survivor();
  memset(s, 'c', 4000);
  errno = 0;
  void* failed = fail_to_grow(s);
  printf("fail: %s, errno %d, old block %s\n", failed ? "a block" : "null", errno,
         s[0] == 'c' && s[3999] == 'c' ? "kept" : "lost");

  char* freed_later = survivor();
  Use(fail_to_grow(freed_later));
  free(freed_later);

  char* z = first_block(10);
  errno = 0;
  void* none = size_zero(z);
  printf("size 0: %s, errno %d\n", none ? "a block" : "null", errno);
  void* n = from_nothing();
  printf("from nothing: %s\n", n ? "a block" : "null");

  void* a = array_of(NULL, 10, 30);
  a = array_of(a, 20, 30);
  errno = 0;
  void* overflow = array_of(a, SIZE_MAX / 2, 3);
  printf("array overflow: %s, errno %d\n", overflow ? "a block" : "null", errno);

  Expect("first_block", 3, 1000 + 64 + 10, 1, 64);
  Expect("shrink_in_place", 1, 500, 0, 0);
  Expect("grow_and_move", 1, 300000, 0, 0);
  Expect("grow_large", 1, 3000000, 1, 3000000);
  Expect("fail_to_grow", 0, 0, 0, 0);
  Expect("survivor", 2, 8000, 1, 4000);
  Expect("size_zero", none != NULL, 0, none != NULL, 0);
  Expect("from_nothing", 1, 77, 1, 77);
  Expect("array_of", 2, 300 + 600, 1, 600);
  return 0;
}
