// Two threads, each with one seccomp filter; the main thread's allows every call, the other one's kills at a system call.
//   filters_of_threads at_start NUMBER
//   filters_of_threads later NUMBER       the main thread alone, when the first line comes
// Answers each line of input.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static void Install(unsigned number, unsigned action) {
  struct sock_filter lines[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof lines / sizeof lines[0], lines};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    exit(97);
}

static unsigned number;
static pthread_barrier_t installed;

static void* Filtered(void* unused) {
  Install(number, SECCOMP_RET_KILL_PROCESS);
  pthread_barrier_wait(&installed);
  for (;;) pause();
  return unused;
}

int main(int argc, char** argv) {
  if (argc < 3) return 98;
  number = (unsigned)atoi(argv[2]);
  const int later = strcmp(argv[1], "later") == 0;
  if (!later) {
    pthread_t thread;
    pthread_barrier_init(&installed, NULL, 2);
    if (pthread_create(&thread, NULL, Filtered, NULL) != 0) return 98;
    pthread_barrier_wait(&installed);
    Install(number, SECCOMP_RET_ALLOW);
  }
  printf("ready\n");
  fflush(stdout);
  char line[100];
  for (int lines = 1; fgets(line, sizeof line, stdin) != NULL; ++lines) {
    if (later && lines == 1) Install(number, SECCOMP_RET_KILL_PROCESS);
    printf("done %d\n", lines);
    fflush(stdout);
  }
  _exit(0);
}
