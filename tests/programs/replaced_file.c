// Allocates in one function or another, as the lines on standard input say, and answers each. For tests of files that change
// while they are loaded.
//     s        100 blocks that cache_session keeps
//     r        100 blocks that cache_report keeps
//     l PATH   loads the library, and deletes its file at once
//     k PATH   loads the library, and keeps its file
//     m PATH   loads a copy in a memory file
//     c        unloads the library
//     p        100 blocks that the library's hook keeps
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include "known.h"

KNOWN void* cache_session(void) { return malloc(3000); }
KNOWN void* cache_report(void) { return malloc(3000); }

// Returns the path of the copy. Its descriptor stays open.
static const char* InMemory(const char* path) {
  static char copy[64];
  const int from = open(path, O_RDONLY), to = memfd_create("plugin", 0);
  while (sendfile(to, from, NULL, 1 << 20) > 0) {
  }
  close(from);
  snprintf(copy, sizeof copy, "/proc/self/fd/%d", to);
  return copy;
}

int main(void) {
  static char line[4200];
  void* (*on_event)(void) = 0;
  void* library = NULL;
  setvbuf(stdin, NULL, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  for (int lines = 1; fgets(line, sizeof line, stdin); ++lines) {
    line[strcspn(line, "\n")] = 0;
    if (line[0] == 'c') dlclose(library);
    if (line[0] == 'l' || line[0] == 'k' || line[0] == 'm') {
      library = dlopen(line[0] == 'm' ? InMemory(line + 2) : line + 2, RTLD_NOW);
      if (library == NULL || (line[0] == 'l' && unlink(line + 2) != 0)) abort();
      on_event = (void* (*)(void))dlsym(library, "on_event");
    }
    for (int i = 0; i < 100; ++i) {
      if (line[0] == 's') cache_session();
      if (line[0] == 'r') cache_report();
      if (line[0] == 'p') on_event();
    }
    printf("done %d\n", lines);
    fflush(stdout);
  }
  return 0;
}
