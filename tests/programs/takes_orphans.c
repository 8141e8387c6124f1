// A master that waits for all its children and counts those that it did not start.
//
//   takes_orphans HOW [PROGRAM ARGS…]
//     HOW   plain       no subreaper: orphans are its children only if it is PID 1
//           subreaper   becomes a subreaper before its first allocation
//
// For each line of its input it starts one worker: a fork that holds 100 blocks of 4,000 bytes, or PROGRAM, with LD_PRELOAD
// from WORKER_PRELOAD. It prints "worker N" after the end of each. At the end of its input it waits until it has no child.
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_INLINED __attribute__((noinline, noclone))

static int strangers;

NOT_INLINED static void HoldBlocks(void) {
  for (int i = 0; i < 100; ++i) {
    char* volatile block = malloc(4000);
    memset(block, 1, 4000);
  }
}

static void Work(char** program) {
  if (*program == NULL) {
    HoldBlocks();
    _exit(0);
  }
  const char* preload = getenv("WORKER_PRELOAD");
  if (preload != NULL) setenv("LD_PRELOAD", preload, 1);
  unsetenv("WORKER_PRELOAD");
  execvp(*program, program);
  _exit(127);
}

static void Await(pid_t worker) {
  int status;
  for (pid_t pid; (pid = wait(&status)) > 0 && pid != worker;) ++strangers;
}

int main(int count, char** arguments) {
  if (count > 1 && strcmp(arguments[1], "subreaper") == 0) prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  char line[64];
  setvbuf(stdin, NULL, _IONBF, 0);
  for (int number = 1; fgets(line, sizeof line, stdin) != NULL; ++number) {
    const pid_t worker = fork();
    if (worker == 0) Work(arguments + 2);
    Await(worker);
    printf("worker %d\n", number);
    fflush(stdout);
  }
  while (wait(NULL) > 0) ++strangers;
  printf("%d strangers, then %s\n", strangers, strerror(errno));
  return 0;
}
