// Built twice: with -O1, and with -O2, for which GCC clones both functions and names them build_index.constprop.0.isra.0 and
// parse_body.constprop.0. Allocates 30 MB and 20 MB and frees nothing; nothing waits.
#include <stdlib.h>
#include <string.h>

struct options {
  int size, flags, padding;
};

static void* __attribute__((noinline)) build_index(struct options* o, int mode) {
  char* p = malloc((size_t)(o->size + mode));
  memset(p, 1, (size_t)o->size);
  return p;
}

static void* __attribute__((noinline)) parse_body(int n, int mode) {
  char* p = malloc((size_t)n);
  memset(p, mode, (size_t)n);
  return p;
}

int main(void) {
  struct options o = {3000, 1, 2};
  for (int i = 0; i < 10000; i++) {
    void* volatile a = build_index(&o, 0);
    void* volatile b = parse_body(2000, 1);
    (void)a;
    (void)b;
  }
  return 0;
}
