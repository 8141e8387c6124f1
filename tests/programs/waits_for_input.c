// Allocates 100 blocks for each line on standard input and answers it; ends with the input. For tests of snapshots.
#include <stdlib.h>
#include <string.h>

#include "known.h"

KNOWN void* for_each_line(void) { return malloc(1000); }

int main(void) {
  static char line[100];
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
