// A master that waits for all its children and counts those that it did not start.
//
//   takes_orphans HOW [PROGRAM ARGS…]
//     HOW   plain       no subreaper: orphans are its children only if it is PID 1
//           subreaper   becomes a subreaper before its first allocation
//           36          the same, with the option of prctl from the command line
//           main-ended  becomes a subreaper and ends the main thread: another thread does the work
//
// Built with BY_LIBRARY, BY_COMPUTED_OPTION, BY_COMPUTED_NUMBER or BY_INSTRUCTION, it becomes a subreaper in another way
// than with a plain call of prctl.
//
// For each line of its input it starts one worker: a fork that holds 100 blocks of 4,000 bytes, or PROGRAM, with LD_PRELOAD
// from WORKER_PRELOAD. It prints "worker N" after the end of each. At the end of its input it waits until it has no child.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOT_INLINED __attribute__((noinline, noclone))

static int strangers;

#ifdef BY_LIBRARY
void BecomeSubreaper(int option);
#else
NOT_INLINED static void BecomeSubreaper(int option) {
#if defined BY_COMPUTED_OPTION
  prctl(option, 1, 0, 0, 0);
#elif defined BY_COMPUTED_NUMBER
  syscall(option - PR_SET_CHILD_SUBREAPER + SYS_prctl, (long)option, 1L, 0L, 0L, 0L);
#elif defined BY_INSTRUCTION
  register long fourth __asm__("r10") = 0;
  long result = SYS_prctl;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"((long)option), "S"(1L), "d"(0L), "r"(fourth)
                   : "rcx", "r11", "memory");
#else
  (void)option;
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
#endif
}
#endif

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

static void* Serve(void* program) {
  char line[64];
  setvbuf(stdin, NULL, _IONBF, 0);
  for (int number = 1; fgets(line, sizeof line, stdin) != NULL; ++number) {
    const pid_t worker = fork();
    if (worker == 0) Work(program);
    Await(worker);
    printf("worker %d\n", number);
    fflush(stdout);
  }
  while (wait(NULL) > 0) ++strangers;
  printf("%d strangers, then %s\n", strangers, strerror(errno));
  exit(0);
}

int main(int count, char** arguments) {
  const char* how = count > 1 ? arguments[1] : "";
  const int main_ends = strcmp(how, "main-ended") == 0;
  if (atoi(how) != 0 || main_ends || strcmp(how, "subreaper") == 0) BecomeSubreaper(atoi(how));
  if (!main_ends) Serve(arguments + 2);
  pthread_t thread;
  pthread_create(&thread, NULL, Serve, arguments + 2);
  pthread_exit(NULL);
}
