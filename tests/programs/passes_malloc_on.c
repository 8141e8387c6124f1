// Defines malloc and free, which count their calls and pass them on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

static void* (*next_malloc)(size_t);
static void (*next_free)(void*);
static long blocks;

void* malloc(size_t bytes) {
  if (next_malloc == NULL) next_malloc = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
  ++blocks;
  return next_malloc(bytes);
}
void free(void* block) {
  if (next_free == NULL) next_free = (void (*)(void*))dlsym(RTLD_NEXT, "free");
  --blocks;
  next_free(block);
}

int main(void) {
  static void* kept[100];
  for (int i = 0; i < 100; ++i) kept[i] = malloc(200);
  for (int i = 0; i < 40; ++i) free(kept[i]);
  printf("%ld\n", blocks);
  return 0;
}
