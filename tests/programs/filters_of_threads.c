// Two threads, each with one seccomp filter; the main thread's allows every call, the other one's kills at a system call.
//   filters_of_threads at_start NUMBER
//   filters_of_threads later NUMBER       the main thread alone, when the first line comes
//   filters_of_threads replaced NUMBER    when the first line comes, a thread without a filter starts the other one and ends;
//                                         the main thread waits in vfork from then on
// Answers each line of input.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
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

static void AnswerLines(int lines) {
  char line[100];
  for (; fgets(line, sizeof line, stdin) != NULL; ++lines) {
    printf("done %d\n", lines);
    fflush(stdout);
  }
  _exit(0);
}

static void* FilteredAnswers(void* unused) {
  Install(number, SECCOMP_RET_KILL_PROCESS);
  pthread_barrier_wait(&installed);
  AnswerLines(2);
  return unused;
}

static void* StartsTheOther(void* unused) {
  pthread_t thread;
  pthread_barrier_wait(&installed);
  if (pthread_create(&thread, NULL, FilteredAnswers, NULL) != 0) exit(98);
  return unused;
}

static void AnswerOnceAndWaitInVfork(void) {
  char line[100];
  pthread_t thread;
  pthread_barrier_init(&installed, NULL, 2);
  if (pthread_create(&thread, NULL, StartsTheOther, NULL) != 0) exit(98);
  Install(number, SECCOMP_RET_ALLOW);
  printf("ready\n");
  fflush(stdout);
  if (fgets(line, sizeof line, stdin) == NULL) _exit(0);
  pthread_barrier_wait(&installed);
  pthread_join(thread, NULL);
  pthread_barrier_wait(&installed);
  printf("done 1\n");
  fflush(stdout);
  if (vfork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (;;) pause();
  }
}

int main(int argc, char** argv) {
  if (argc < 3) return 98;
  number = (unsigned)atoi(argv[2]);
  if (strcmp(argv[1], "replaced") == 0) AnswerOnceAndWaitInVfork();
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
