// Prints the bytes that a forked child allocates, none of them its parent's. Both begin and end with a certainly sampled block.
//     forked_bytes        bytes BYTES, of the child
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

enum { kSampled = 64 << 20, kSmall = 100, kCount = 2000 };

void* volatile kept;

KNOWN void allocates(void) {
  kept = malloc(kSampled);
  for (int i = 0; i < kCount; ++i) kept = malloc(kSmall);
}

int main(void) {
  printf("bytes %d\n", 2 * kSampled + kCount * kSmall);
  fflush(stdout);
  allocates();
  const pid_t child = fork();
  if (child == 0) {
    allocates();
    kept = malloc(kSampled);
    _exit(0);
  }
  waitpid(child, NULL, 0);
  return 0;
}
