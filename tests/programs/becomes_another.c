// Runs as root and becomes another user, as servers do.
//   becomes_another early          before anything is allocated
//   becomes_another late           after allocations
//   becomes_another worker         the master remains root, two forked workers become the user
//   becomes_another executes       and executes a program, like setpriv and start-stop-daemon
//   becomes_another in_vfork       a vfork child becomes the user and executes a program
//   becomes_another in_new_root DIR   chroot, then as before
//   becomes_another for_a_while    with a way back: seteuid
//   becomes_another own_call       by a raw system call, which nobody sees
//   becomes_another own_call_executes   and executes a static program, like gosu; that program waits for the end of its
//                                       input
//   becomes_another overwrites     a worker, after the master has overwritten its environment, as for a process title
#define _GNU_SOURCE
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

extern char** environ;
enum { kNobody = 65534 };

KNOWN void* allocates_as_root(void) { return malloc(1000); }
KNOWN void* allocates_afterwards(void) { return malloc(100); }

static void Afterwards(void) {
  for (int i = 0; i < 10; ++i) Use(allocates_afterwards());
}

static int Become(void) { return setgroups(0, NULL) != 0 || setgid(kNobody) != 0 || setuid(kNobody) != 0; }

static int Worker(void) {
  const pid_t child = fork();
  if (child == 0) {
    if (Become()) _exit(1);
    Afterwards();
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

static void OverwriteEnvironment(void) {
  for (char** entry = environ; *entry != NULL; ++entry) memset(*entry, 'x', strlen(*entry));
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const char* way = argv[1];
  if (strcmp(way, "executed") == 0 || strcmp(way, "executed_and_waits") == 0) {
    Afterwards();
    if (strcmp(way, "executed_and_waits") == 0) {
      while (getchar() != EOF) {
      }
    }
    Expect("allocates_afterwards", 10, 1000, 10, 1000);
    return 0;
  }
  if (strcmp(way, "overwrites") == 0) OverwriteEnvironment();
  const int first = strcmp(way, "early") != 0 && strcmp(way, "executes") != 0;
  if (first) Use(allocates_as_root());
  if (strcmp(way, "early") == 0 || strcmp(way, "late") == 0) {
    if (Become()) return 1;
    Afterwards();
    Expect("allocates_afterwards", 10, 1000, 10, 1000);
  } else if (strcmp(way, "worker") == 0 || strcmp(way, "overwrites") == 0) {
    if (Worker() || Worker()) return 1;
    printf("each allocates_afterwards 10 1000 10 1000\n");
  } else if (strcmp(way, "executes") == 0 || strcmp(way, "in_vfork") == 0) {
    char* arguments[] = {argv[0], "executed", NULL};
    if (strcmp(way, "in_vfork") == 0) {
      const pid_t child = vfork();
      if (child == 0) {
        if (setresuid(kNobody, kNobody, kNobody) != 0) _exit(1);
        execv("/proc/self/exe", arguments);
        _exit(1);
      }
      int status = 0;
      waitpid(child, &status, 0);
      Expect("allocates_as_root", 1, 1000, 1, 1000);
      return status != 0;
    }
    if (setresuid(kNobody, kNobody, kNobody) != 0) return 1;
    execv("/proc/self/exe", arguments);
    return 1;
  } else if (strcmp(way, "in_new_root") == 0) {
    if (chroot(argv[2]) != 0 || chdir("/") != 0 || Become()) return 1;
    Afterwards();
    Expect("allocates_afterwards", 10, 1000, 10, 1000);
  } else if (strcmp(way, "for_a_while") == 0) {
    if (seteuid(kNobody) != 0) return 1;
    Afterwards();
    if (seteuid(0) != 0) return 1;
    Expect("allocates_afterwards", 10, 1000, 10, 1000);
  } else if (strcmp(way, "own_call_executes") == 0) {
    char* arguments[] = {argv[0], "executed_and_waits", NULL};
    if (syscall(SYS_setresuid, kNobody, kNobody, kNobody) != 0) return 1;
    execv("/proc/self/exe", arguments);
    return 1;
  } else if (strcmp(way, "own_call") == 0) {
    if (syscall(SYS_setresuid, kNobody, kNobody, kNobody) != 0) return 1;
    Afterwards();
    Expect("allocates_afterwards", 10, 1000, 10, 1000);
  } else {
    return 2;
  }
  if (first) Expect("allocates_as_root", 1, 1000, 1, 1000);
  return 0;
}
