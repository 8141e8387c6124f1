// Holds the given number of MiB of touched memory. Then, for each line on standard input, allocates for about a hundred
// milliseconds. For tests with little memory.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int argc, char** argv) {
  static char line[100];
  const int mebibytes = argc > 1 ? atoi(argv[1]) : 44;
  for (int i = 0; i < mebibytes; ++i) memset(malloc(1 << 20), 1, 1 << 20);
  printf("ready\n");
  fflush(stdout);
  int lines = 0;
  while (fgets(line, sizeof line, stdin)) {
    const clock_t end = clock() + CLOCKS_PER_SEC / 10;
    while (clock() < end) {
      for (int i = 0; i < 100; ++i) free(malloc((size_t)(1000 + i)));
    }
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
