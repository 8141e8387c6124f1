// Children of one parent that has allocated before. Each allocates BYTES in blocks of 64 and exits.
//     forked_siblings CHILDREN BYTES fork|_Fork|syscall
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"
#include "raw_fork.h"

KNOWN void* parent_allocates(void) { return malloc(1000); }
KNOWN void* sibling_allocates(void) { return malloc(64); }

static pid_t Fork(const char* how) {
  if (strcmp(how, "_Fork") == 0) return RawFork();
  if (strcmp(how, "syscall") == 0) return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
  return fork();
}

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int children = atoi(argv[1]);
  const long bytes = atol(argv[2]);
  Use(parent_allocates());
  for (int i = 0; i < children; ++i) {
    const pid_t child = Fork(argv[3]);
    if (child < 0) return 1;
    if (child == 0) {
      for (long done = 0; done < bytes; done += 64) Use(sibling_allocates());
      _exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
  }
  return 0;
}
