// What unsampled_writes must detect: a malloc that counts its calls in memory shared by all threads.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>

static volatile unsigned long calls;

void* malloc(size_t bytes) {
  static void* (*next)(size_t);
  if (!next) next = (void* (*)(size_t))dlsym(RTLD_NEXT, "malloc");
  ++calls;
  return next(bytes);
}
