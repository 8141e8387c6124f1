// A tracer that follows the children of its tracee, allocates once the first of them is seen, and waits for all of them,
// like proot and strace -f.
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static void* volatile kept;

int main(void) {
  const pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, NULL, NULL);
    raise(SIGSTOP);
    kept = malloc(100000000);
    exit(0);
  }
  int status, tracees = 0;
  waitpid(child, &status, 0);
  ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE);
  ptrace(PTRACE_CONT, child, NULL, NULL);
  pid_t pid;
  while ((pid = waitpid(-1, &status, __WALL)) > 0) {
    if (!WIFSTOPPED(status)) {
      ++tracees;
      if (pid == child) kept = malloc(100000000);
      continue;
    }
    const int number = WSTOPSIG(status);
    ptrace(PTRACE_CONT, pid, NULL, number == SIGTRAP || number == SIGSTOP ? 0 : number);
  }
  printf("%d\n", tracees);
  return 0;
}
