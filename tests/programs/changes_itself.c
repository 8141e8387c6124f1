// Does what each line says and answers "done N"; 100 blocks for any other line. Ends with 0 when its input does. Needs root.
//
//     root DIR     chroot there: it sees none of its files
//     user         changes its effective user
//     namespace    enters a user namespace of its own
//     hide DIR     mounts an empty folder over DIR, in a mount namespace of its own
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "known.h"

KNOWN void* for_each_line(void) { return malloc(1000); }

static int Change(char* line) {
  line[strcspn(line, "\n")] = '\0';
  char* const folder = strchr(line, ' ');
  if (!strncmp(line, "root ", 5)) return chroot(folder + 1) | chdir("/");
  if (!strcmp(line, "namespace")) return unshare(CLONE_NEWUSER);
  if (!strcmp(line, "user")) return seteuid(65534);
  if (!strncmp(line, "hide ", 5)) {
    return unshare(CLONE_NEWNS) | mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) |
           mount("none", folder + 1, "tmpfs", 0, NULL);
  }
  for (int i = 0; i < 100; ++i) {
    void* const block = for_each_line();
    if (i % 10) free(block);
  }
  return 0;
}

int main(void) {
  static char line[500];
  int lines = 0;
  setvbuf(stdin, NULL, _IONBF, 0);
  printf("ready\n");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin)) {
    if (Change(line) != 0) return 77;
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
