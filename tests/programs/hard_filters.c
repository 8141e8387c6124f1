// Filters that forbid system calls, and privileges that are dropped. `hard_filters CASE [FOLDER]`; prints what happened.
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

KNOWN void* before_it(void) { return malloc(100); }
KNOWN void* after_it(void) { return malloc(30); }

static void Before(void) {
  for (int i = 0; i < 50; ++i) free(before_it());
  Expect("before_it", 50, 5000, 0, 0);
}
static void After(void) {
  for (int i = 0; i < 20; ++i) free(after_it());
}
static void SayEnd(const char* text) {
  if (write(1, text, strlen(text)) < 0) _exit(98);
}

// Everything but write, exit and what free needs kills: a system call of ours would be the end.
static struct sock_filter only_write[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog program = {sizeof only_write / sizeof only_write[0], only_write};

static void EndRaw(int status) { syscall(SYS_exit, status); }

static void Strict(void) {
  Before();
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) exit(8);
  After();
  SayEnd("strict\n");
  EndRaw(3);
}

static void ByPrctl(void) {
  Before();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) exit(8);
  After();
  SayEnd("by prctl\n");
  _exit(4);
}

static void BySyscall(void) {
  Before();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) exit(8);
  After();
  SayEnd("by syscall\n");
  _exit(5);
}

// The first thing that it does: the first allocation comes behind the filter. The allocator itself needs memory.
static void AtOnce(void) {
  static struct sock_filter no_files[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 4, 0),
                                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 3, 0),
                                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getpid, 2, 0),
                                          BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_madvise, 1, 0),
                                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                          BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog filter = {sizeof no_files / sizeof no_files[0], no_files};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter)) exit(8);
  for (int i = 0; i < 50; ++i) free(before_it());
  SayEnd("at once\n");
  exit(6);
}

static void InChild(void) {
  Before();
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    After();
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(8);
    After();
    SayEnd("in a child\n");
    _exit(7);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("child: %d\n", status);
}

static void* Waits(void* unused) {
  After();
  SayEnd("a thread\n");
  return unused;
}

// The filter holds for all threads, also those that come later.
static void WithThreads(void) {
  Before();
  static struct sock_filter threads_too[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 3, 0),
                                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_execve, 2, 0),
                                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_utimensat, 1, 0),
                                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                                             BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog filter = {sizeof threads_too / sizeof threads_too[0], threads_too};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &filter))
    exit(8);
  pthread_t thread;
  pthread_create(&thread, NULL, Waits, NULL);
  pthread_join(thread, NULL);
  After();
  SayEnd("with threads\n");
}

// A filter that cannot be: as libseccomp asks what the kernel knows.
static void Refused(void) {
  Before();
  printf("refused: %d", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL));
  printf(" %d\n", errno);
  printf("refused: %ld", syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0xffff, NULL));
  printf(" %d\n", errno);
  After();
  Expect("after_it", 20, 600, 0, 0);
}

// ---- several calls ----

// The two that follow are allowed, and what free needs.
static struct sock_filter calls_again[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 6, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 5, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_prctl, 4, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_seccomp, 3, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_munmap, 2, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_landlock_restrict_self, 1, 0),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
};
static struct sock_fprog allows_more = {sizeof calls_again / sizeof calls_again[0], calls_again};

static void InstallFirst(void) {
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &allows_more)) exit(8);
}

static void Twice(void) {
  Before();
  InstallFirst();
  if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &allows_more)) _exit(9);
  After();
  if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(9);
  After();
  SayEnd("twice\n");
  _exit(4);
}

// As programs ask whether there are filters.
static void RefusedAfter(void) {
  Before();
  InstallFirst();
  if (!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, NULL)) _exit(9);
  After();
  if (!syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL)) _exit(9);
  After();
  SayEnd("refused after a filter\n");
  _exit(4);
}

// A positive answer, which is no error.
static void Listener(void) {
  Before();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program) < 0)
    exit(8);
  After();
  SayEnd("with a listener\n");
  _exit(4);
}

// Landlock's call may be unknown to the kernel, and fails in any case.
static void LandlockAfter(void) {
  Before();
  InstallFirst();
  syscall(SYS_landlock_restrict_self, -1, 0);
  After();
  SayEnd("Landlock after a filter\n");
  _exit(4);
}

KNOWN void* in_child(void) { return malloc(70); }

// libseccomp asks at its start. The child is recorded.
static void Query(void) {
  Before();
  unsigned action = SECCOMP_RET_KILL_PROCESS;
  printf("query: %ld\n", syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action));
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 10; ++i) free(in_child());
    exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  Expect("in_child", 10, 700, 0, 0);
}

static void PrctlBySyscall(void) {
  Before();
  if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
      syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0))
    exit(8);
  After();
  SayEnd("prctl by syscall\n");
  _exit(4);
}

// The instruction that reads the time raises SIGSEGV. A refused call changes nothing.
static void NoClock(void) {
  Before();
  if (syscall(SYS_prctl, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)) exit(8);
  After();
  if (!prctl(PR_SET_TSC, 99)) exit(9);
  static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
  for (int i = 0; i < 1000; ++i) {
    pthread_mutex_lock(&mutex);
    free(after_it());
    pthread_mutex_unlock(&mutex);
  }
  SayEnd("no clock\n");
  _exit(4);
}

// Only libc may make system calls; others raise SIGSYS.
static volatile int dispatched;
static void CountDispatched(int signal) { dispatched += signal != 0; }

static void UserDispatch(void) {
  Before();
  enum { kSetDispatch = 59, kOn = 1, kOff = 0 };
  uintptr_t start = 0, end = 0;
  char line[512];
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    uintptr_t from, to;
    char rights[8];
    if (sscanf(line, "%lx-%lx %7s", &from, &to, rights) != 3 || rights[2] != 'x' || strstr(line, "/libc") == NULL)
      continue;
    start = from;
    end = to;
  }
  if (maps != NULL) fclose(maps);
  signal(SIGSYS, CountDispatched);
  if (start == 0 || prctl(kSetDispatch, kOn, start, end - start, 0)) {
    SayEnd("no dispatch\n");
    return;
  }
  After();
  for (int i = 0; i < 1000; ++i) free(before_it());
  prctl(kSetDispatch, kOff, 0, 0, 0);
  printf("system calls outside of libc: %s\n", dispatched ? "some" : "none");
}

// ---- rights ----

static void* Allocates(void* stop) {
  while (!*(volatile int*)stop) free(before_it());
  return NULL;
}

// libc tells every thread that it knows, and aborts when their answers differ.
static void SetUser(void) {
  Before();
  static volatile int stop;
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, Allocates, (void*)&stop);
  const int results[] = {setgroups(0, NULL), setresgid(65534, 65534, 65534), setresuid(65534, 65534, 65534)};
  printf("%d %d %d\n", results[0], results[1], results[2]);
  After();
  stop = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
  printf("now %d\n", (int)getuid());
}

// Only a process with one thread may do this.
static void UserNamespace(void) {
  Before();
  printf("unshare: %d\n", unshare(CLONE_NEWUSER));
  After();
}

static void UnshareFiles(void) {
  Before();
  printf("unshare: %d\n", unshare(CLONE_FS | CLONE_FILES));
  After();
}

static void Limits(void) {
  Before();
  const struct rlimit none = {0, 0}, few = {4, 4};
  printf("%d", setrlimit(RLIMIT_NOFILE, &few));
  printf("%d", setrlimit(RLIMIT_FSIZE, &none));
  printf("%d\n", setrlimit(RLIMIT_NPROC, &none));
  After();
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IONBF, 0);
  static const struct {
    const char* name;
    void (*run)(void);
  } cases[] = {{"strict", Strict},
               {"by_prctl", ByPrctl},
               {"by_syscall", BySyscall},
               {"at_once", AtOnce},
               {"in_child", InChild},
               {"with_threads", WithThreads},
               {"refused", Refused},
               {"twice", Twice},
               {"refused_after", RefusedAfter},
               {"listener", Listener},
               {"landlock_after", LandlockAfter},
               {"query", Query},
               {"prctl_by_syscall", PrctlBySyscall},
               {"no_clock", NoClock},
               {"user_dispatch", UserDispatch},
               {"set_user", SetUser},
               {"user_namespace", UserNamespace},
               {"unshare_files", UnshareFiles},
               {"limits", Limits}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (!strcmp(which, cases[i].name)) return cases[i].run(), 0;
  }
  return 99;
}
