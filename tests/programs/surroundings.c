// Prints what a program can see of its own process: descriptors, threads, children, signals, folder, limits. Must be the
// same without the library, and before and after the first sample.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

static void CountEntries(const char* folder) {
  DIR* dir = opendir(folder);
  int count = 0;
  for (struct dirent* entry; (entry = readdir(dir));) count += entry->d_name[0] != '.';
  closedir(dir);
  printf("%s: %d\n", folder, count);
}

static void Look(const char* when) {
  printf("--- %s\n", when);
  CountEntries("/proc/self/fd");
  CountEntries("/proc/self/task");
  for (int signal = 1; signal < 65; ++signal) {
    struct sigaction action;
    if (sigaction(signal, NULL, &action)) continue;
    if (action.sa_handler != SIG_DFL)
      printf("signal %d: %s\n", signal, action.sa_handler == SIG_IGN ? "ignored" : "handled");
  }
  sigset_t mask;
  sigprocmask(SIG_SETMASK, NULL, &mask);
  for (int signal = 1; signal < 65; ++signal) {
    if (sigismember(&mask, signal)) printf("signal %d: blocked\n", signal);
  }
  errno = 0;
  const pid_t child = waitpid(-1, NULL, WNOHANG);
  printf("waitpid: %d, errno %d\n", (int)child, errno);
  char* folder = getcwd(NULL, 0);
  printf("cwd %s\n", folder);
  free(folder);
  const mode_t mode = umask(0);
  umask(mode);
  printf("umask %o, nice %d\n", (unsigned)mode, getpriority(PRIO_PROCESS, 0));
  int fd = dup(0);
  printf("next descriptor %d\n", fd);
  close(fd);
}

int main(void) {
  Look("before");
  for (int i = 0; i < 100; ++i) free(malloc(1 << 20));
  Look("after");
  return 0;
}
