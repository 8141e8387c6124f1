// Allocates in one function or in another, as the lines on standard input say, and answers each. For tests of files that
// change while they are loaded.
//     s        100 blocks that cache_session keeps
//     r        100 blocks that cache_report keeps
//     l PATH   loads the library, removes its file at once
//     p        100 blocks that the library's hook keeps
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

KNOWN void* cache_session(void) { return malloc(3000); }
KNOWN void* cache_report(void) { return malloc(3000); }

int main(void) {
  static char line[4200];
  void* (*on_event)(void) = 0;
  setvbuf(stdin, NULL, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  for (int lines = 1; fgets(line, sizeof line, stdin); ++lines) {
    line[strcspn(line, "\n")] = 0;
    if (line[0] == 'l') {
      void* library = dlopen(line + 2, RTLD_NOW);
      if (library == NULL || unlink(line + 2) != 0) abort();
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
