// Allocates 100 blocks for each line on standard input and answers it; ends with the input. For tests of snapshots.
// `waits_for_input ring` has a worker of the kernel's among its threads: one that polls an io_uring. Exit status 77: refused.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "known.h"

KNOWN void* for_each_line(void) { return malloc(1000); }

static int HasPolledRing(void) {
  enum { kSetup = 425, kFlags = 2, kPolled = 2, kIdleMs = 4 };
  unsigned parameters[30] = {0};
  parameters[kFlags] = kPolled;
  parameters[kIdleMs] = 100000;
  return syscall(kSetup, 8, parameters) >= 0;
}

int main(int argc, char** argv) {
  static char line[100];
  if (argc > 1 && strcmp(argv[1], "ring") == 0 && !HasPolledRing()) return 77;
  int lines = 0;
  setvbuf(stdin, NULL, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (line[0] == 'q') abort();
    for (int i = 0; i < 100; ++i) {
      void* p = for_each_line();
      if (i % 10) free(p);
    }
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
