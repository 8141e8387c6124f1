// Children that copy their parent's memory in ways that bypass libc's fork handlers, and one that shares that memory.
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"
#include "raw_fork.h"

KNOWN void* parent_allocates(void) { return malloc(1000); }
KNOWN void* raw_fork_allocates(void) { return malloc(50); }
KNOWN void* raw_clone_allocates(void) { return malloc(60); }
KNOWN void* called_fork_allocates(void) { return malloc(70); }
KNOWN void* plain_fork_allocates(void) { return malloc(80); }
KNOWN void* sharing_child_allocates(void) { return malloc(90); }

// By an instruction of the program's own.
static long Raw(long number, long first) {
  long result;
  register long r10 __asm__("r10") = 0;
  register long r8 __asm__("r8") = 0;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(first), "S"(0), "d"(0), "r"(r10), "r"(r8)
                   : "rcx", "r11", "memory");
  return result;
}

static void Child(pid_t child, void* (*allocate)(void)) {
  if (child == 0) {
    for (int i = 0; i < 10; ++i) Use(allocate());
    _exit(0);
  }
  waitpid(child, NULL, 0);
}

static int Shares(void* unused) {
  (void)unused;
  for (int i = 0; i < 10; ++i) Use(sharing_child_allocates());
  return 0;
}

int main(void) {
  static char stack[64 << 10];
  for (int i = 0; i < 10; ++i) Use(parent_allocates());
  fflush(stdout);
  Child((pid_t)Raw(SYS_fork, 0), raw_fork_allocates);
  Child((pid_t)Raw(SYS_clone, SIGCHLD), raw_clone_allocates);
  Child((pid_t)syscall(SYS_fork), called_fork_allocates);
  Child(RawFork(), plain_fork_allocates);
  waitpid(clone(Shares, stack + sizeof stack, CLONE_VM | SIGCHLD, NULL), NULL, 0);
  for (int i = 0; i < 5; ++i) Use(parent_allocates());
  Expect("parent_allocates", 15, 15000, 15, 15000);
  Expect("plain_fork_allocates", 10, 800, 10, 800);
  return 0;
}
