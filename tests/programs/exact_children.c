// Children of fork where every allocation is recorded. Prints what the parent holds.
//     exact_children thread     the child, which may have no table of its own, starts a thread that allocates and frees
//     exact_children stranger   a thread that has never allocated forks; its child frees what the parent holds
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

enum { kBlocks = 1000 };
static void* kept[kBlocks];

KNOWN void keep_blocks(void) {
  for (int i = 0; i < kBlocks; ++i) kept[i] = malloc(100);
}

static void* Allocates(void* inherited) {
  free(inherited);
  for (int i = 0; i < 100; ++i) {
    void* block = malloc(64);
    Use(block);
    free(block);
  }
  return NULL;
}

static int Await(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static void* ForksAndFrees(void* status) {
  const pid_t child = fork();
  if (child == 0) {
    for (int i = 100; i < kBlocks; ++i) free(kept[i]);
    _exit(7);
  }
  *(int*)status = Await(child);
  return NULL;
}

int main(int argc, char** argv) {
  keep_blocks();
  int status = 0;
  pthread_t thread;
  if (argc > 1 && strcmp(argv[1], "stranger") == 0) {
    pthread_create(&thread, NULL, ForksAndFrees, &status);
    pthread_join(thread, NULL);
  } else {
    const pid_t child = fork();
    if (child == 0) {
      pthread_create(&thread, NULL, Allocates, kept[0]);
      pthread_join(thread, NULL);
      _exit(7);
    }
    status = Await(child);
  }
  if (status != 7) return 1;
  Expect("keep_blocks", kBlocks, kBlocks * 100, kBlocks, kBlocks * 100);
  return 0;
}
