// Forbids itself all files with Landlock before it allocates anything, as xz 5.8 does. Then allocates a known amount. Exit
// status 77 if the kernel has no Landlock.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "known.h"

KNOWN void* behind_landlock(void) { return malloc(30); }

int main(void) {
  // To execute, write, read, list, remove and make anything: 13 kinds that its first version knows.
  const struct landlock_ruleset_attr nothing = {.handled_access_fs = (1 << 13) - 1};
  const long rules = syscall(SYS_landlock_create_ruleset, &nothing, sizeof nothing, 0);
  if (rules < 0) return 77;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, rules, 0)) return 1;
  close((int)rules);
  if (open("/dev/null", 0) >= 0) return 2;
  for (int i = 0; i < 10; ++i) Use(behind_landlock());
  Expect("behind_landlock", 10, 300, 10, 300);
  return 5;
}
