// A forked child has its own, initially empty profile. Blocks that it inherited and frees concern only its parent.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

KNOWN void* parent_before(void) { return malloc(1000); }
KNOWN void* parent_after(void) { return malloc(3000); }
KNOWN void* child_allocates(void) { return malloc(500); }
KNOWN void* grandchild_allocates(void) { return malloc(70); }

int main(void) {
  void* blocks[100];
  for (int i = 0; i < 100; ++i) blocks[i] = parent_before();
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 0; i < 100; ++i) free(blocks[i]);
    void* mine = NULL;
    for (int i = 0; i < 40; ++i) {
      mine = child_allocates();
      if (i % 2 == 0) free(mine);
    }
    const pid_t grandchild = fork();
    if (grandchild == 0) {
      free(mine);  // an inherited block once more
      for (int i = 0; i < 7; ++i) Use(grandchild_allocates());
      _exit(0);
    }
    int status;
    waitpid(grandchild, &status, 0);
    exit(status ? 1 : 0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  printf("child ended with %d\n", status);
  for (int i = 0; i < 50; ++i) free(blocks[i]);
  for (int i = 0; i < 5; ++i) Use(parent_after());
  Expect("parent_before", 100, 100000, 50, 50000);
  Expect("parent_after", 5, 15000, 5, 15000);
  Expect("child_allocates", 40, 20000, 20, 10000);
  Expect("grandchild_allocates", 7, 490, 7, 490);
  return 0;
}
