// String functions that lead nowhere until their library has started, as those of a sanitizer do.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

// In parentheses: since C23 some of these names are also macros.
#define LATE(result, name, parameters, arguments) \
  static result(*next_##name) parameters;         \
  result(name) parameters { return next_##name arguments; }

LATE(int, strcmp, (const char* a, const char* b), (a, b))
LATE(int, strncmp, (const char* a, const char* b, size_t most), (a, b, most))
LATE(char*, strchr, (const char* text, int c), (text, c))
LATE(char*, strrchr, (const char* text, int c), (text, c))
LATE(char*, strstr, (const char* text, const char* part), (text, part))
LATE(size_t, strlen, (const char* text), (text))

#define FIND(name) next_##name = (__typeof__(next_##name))dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void Start(void) {
  free(malloc(1));
  FIND(strcmp), FIND(strncmp), FIND(strchr), FIND(strrchr), FIND(strstr), FIND(strlen);
}
