// The library first learns of a forked child through that child's own vfork child, which shares its memory and exits without exec.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"
#include "raw_fork.h"

KNOWN void* parent_before(void) { return malloc(1000); }
KNOWN void* child_allocates(void) { return malloc(500); }
KNOWN void* other_child_allocates(void) { return malloc(70); }

static void Child(void* (*allocate)(void), int count) {
  const pid_t borrower = vfork();
  if (borrower == 0) _exit(0);
  waitpid(borrower, NULL, 0);
  for (int i = 0; i < count; ++i) Use(allocate());
  _exit(0);
}

int main(void) {
  for (int i = 0; i < 10; ++i) Use(parent_before());
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) Child(child_allocates, 40);
  waitpid(child, NULL, 0);
  const pid_t other = RawFork();
  if (other == 0) Child(other_child_allocates, 7);
  waitpid(other, NULL, 0);
  Expect("parent_before", 10, 10000, 10, 10000);
  Expect("child_allocates", 40, 20000, 40, 20000);
  Expect("other_child_allocates", 7, 490, 7, 490);
  return 0;
}
