// Allocates a known amount and ends in the way that the first argument names.
#define _GNU_SOURCE
#include <dirent.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "known.h"

KNOWN void* before_the_end(void) { return malloc(100); }
KNOWN void* after_the_change(void) { return malloc(30); }

static void AllocateMore(void) {
  for (int i = 0; i < 10; ++i) Use(after_the_change());
}

static void* Slow(void* argument) {
  pthread_join(*(pthread_t*)argument, NULL);  // main is gone when this returns
  AllocateMore();
  return NULL;
}

static void* Exits(void* unused) {
  (void)unused;
  exit(4);
}

static void CloseAll(void) {
  for (int fd = 0; fd < 1024; ++fd) close(fd);
}

static volatile int endless = 1;
__attribute__((noinline)) static int Overflow(int depth) {
  volatile char frame[4096];
  frame[0] = (char)depth;
  return endless ? Overflow(depth + 1) + frame[0] : 0;
}

// After this, opening a file kills the process.
static void ForbidOpen(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
#ifdef SYS_open  // arm64 has none
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_open, 2, 0),
#endif
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  struct sock_fprog program = {sizeof code / sizeof code[0], code};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) exit(8);
}

// Takes all memory that there is, until the kernel puts an end to it.
static void TakeAllMemory(void) {
  const size_t bytes = 1 << 20;
  while (1) {
    char* block = malloc(bytes);
    if (block) memset(block, 1, bytes);
  }
}

int main(int argc, char** argv) {
  const char* way = argc > 1 ? argv[1] : "return";
  static pthread_t self, other;
  for (int i = 0; i < 100; ++i) {
    void* p = before_the_end();
    if (i % 2) free(p);
  }
  Expect("before_the_end", 100, 10000, 50, 5000);
  const int more = !strcmp(way, "close_all") || !strcmp(way, "chdir") || !strcmp(way, "chroot") ||
                   !strcmp(way, "setuid") || !strcmp(way, "pthread_exit") || !strcmp(way, "seccomp");
  if (more) Expect("after_the_change", 10, 300, 10, 300);

  if (!strcmp(way, "return")) return 5;
  if (!strcmp(way, "exit")) exit(6);
  if (!strcmp(way, "_exit")) _exit(7);
  if (!strcmp(way, "_Exit")) _Exit(8);
  if (!strcmp(way, "quick_exit")) quick_exit(9);
  if (!strcmp(way, "exit_group")) syscall(SYS_exit_group, 10);
  if (!strcmp(way, "abort")) abort();
  if (!strcmp(way, "segv")) *(volatile int*)argv[2] = 1;  // argv[2] is null
  if (!strcmp(way, "stack_overflow")) return Overflow(0);
  if (!strcmp(way, "sigterm")) kill(getpid(), SIGTERM), pause();
  if (!strcmp(way, "sigint")) kill(getpid(), SIGINT), pause();
  if (!strcmp(way, "sigkill")) kill(getpid(), SIGKILL), pause();
  if (!strcmp(way, "out_of_memory")) TakeAllMemory();
  if (!strcmp(way, "thread_exits")) {
    pthread_create(&other, NULL, Exits, NULL);
    pause();
  }
  if (!strcmp(way, "pthread_exit")) {
    self = pthread_self();
    pthread_create(&other, NULL, Slow, &self);
    pthread_exit(NULL);
  }
  if (!strcmp(way, "exec")) execl("/bin/true", "true", (char*)NULL);
  if (!strcmp(way, "close_all")) CloseAll();
  if (!strcmp(way, "chdir") && chdir("/")) return 90;
  if (!strcmp(way, "chroot") && (argc < 3 || chroot(argv[2]) || chdir("/"))) return 91;
  if (!strcmp(way, "setuid") && (setgroups(0, NULL) || setgid(65534) || setuid(65534))) return 92;
  if (!strcmp(way, "seccomp")) ForbidOpen();
  if (more) AllocateMore();
  return 0;
}
