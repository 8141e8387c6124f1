// Holds 600 blocks; its forked child holds 1,000 of its own until it exits. Prints the child's pid.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

KNOWN void* parent_holds(void) { return malloc(1000); }
KNOWN void* child_holds(void) { return malloc(1000); }

int main(void) {
  for (int i = 0; i < 600; ++i) Use(parent_holds());
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 1000; ++i) Use(child_holds());
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  printf("child %d\n", (int)child);
  return status;
}
