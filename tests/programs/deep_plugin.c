// A plugin that keeps copies of a string for a while. libc allocates them, and the plugin frees them. OWN_FREE: with a free
// of its own, which the library does not see. Otherwise with the free that its loader finds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#ifdef OWN_FREE
void free(void* block) {
  static void (*real)(void*);
  if (real == NULL) real = (void (*)(void*))dlsym(dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD), "free");
  real(block);
}
#endif

__attribute__((noinline)) void copy_and_free(int count, void* (*host)(void)) {
  char text[1000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  char** copies = malloc((size_t)count * sizeof *copies);
  for (int i = 0; i < count; ++i) copies[i] = strdup(text);
  for (int i = 0; i < count; ++i) free(copies[i]);
  free(copies);
  host();
}
