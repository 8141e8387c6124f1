// Starts itself as a child in every way: vfork + exec, posix_spawn, system, popen. Whatever happens between vfork and exec
// must not change the parent's profile.
//   starts_children [child]
#define _GNU_SOURCE
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

extern char** environ;

KNOWN void* parent_allocates(void) { return malloc(1000); }
KNOWN void* child_allocates(void) { return malloc(50); }

static char self[4096];

int main(int argc, char** argv) {
  if (argc > 1) {
    for (int i = 0; i < 10; ++i) Use(child_allocates());
    return 3;
  }
  const ssize_t length = readlink("/proc/self/exe", self, sizeof self - 7);
  if (length < 0) return 1;
  for (int i = 0; i < 10; ++i) Use(parent_allocates());
  char* arguments[] = {self, "child", NULL};

  pid_t child = vfork();
  if (child == 0) {
    execve(self, arguments, environ);
    _exit(9);
  }
  int status = 0;
  waitpid(child, &status, 0);
  printf("vfork: %d\n", WEXITSTATUS(status));

  child = vfork();
  if (child == 0) _exit(5);
  waitpid(child, &status, 0);
  printf("vfork without exec: %d\n", WEXITSTATUS(status));

  posix_spawn(&child, self, NULL, NULL, arguments, environ);
  waitpid(child, &status, 0);
  printf("posix_spawn: %d\n", WEXITSTATUS(status));

  strcat(self, " child");
  fflush(stdout);
  status = system(self);
  printf("system: %d\n", WEXITSTATUS(status));
  FILE* pipe = popen(self, "r");
  status = pclose(pipe);
  printf("popen: %d\n", WEXITSTATUS(status));

  for (int i = 0; i < 5; ++i) free(parent_allocates());
  Expect("parent_allocates", 15, 15000, 10, 10000);
  printf("each child_allocates 10 500 10 500\n");
  return 0;
}
