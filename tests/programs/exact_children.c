// Children of fork if every allocation is recorded. Prints what the parent holds.
//     exact_children thread     the child, which may have no table of its own, starts a thread that allocates and frees
//     exact_children threads    three threads start in the child at the same time, as they did before in the parent
//     exact_children stranger   a thread that has never allocated forks; its child frees what the parent holds
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
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

enum { kThreads = 3, kEach = 5000 };
static atomic_int ready;
KNOWN void* make_block(size_t bytes) { return malloc(bytes); }
static void* MakesAtOnce(void* unused) {
  for (++ready; ready < kThreads;) sched_yield();
  for (int i = 0; i < kEach; ++i) Use(make_block(48));
  return unused;
}
static void RunThreads(void) {
  pthread_t threads[kThreads];
  ready = 0;
  for (int i = 1; i < kThreads; ++i) pthread_create(&threads[i], NULL, MakesAtOnce, NULL);
  MakesAtOnce(NULL);
  for (int i = 1; i < kThreads; ++i) pthread_join(threads[i], NULL);
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
  if (argc > 1 && strcmp(argv[1], "threads") == 0) {
    RunThreads();  // libc keeps their stacks, and what it has allocated for them
    const pid_t child = fork();
    if (child == 0) {
      RunThreads();
      exit(7);
    }
    status = Await(child);
  } else if (argc > 1 && strcmp(argv[1], "stranger") == 0) {
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
  if (ready != 0) {
    Expect("make_block", kThreads * kEach, kThreads * kEach * 48, kThreads * kEach, kThreads * kEach * 48);
    return 0;
  }
  Expect("keep_blocks", kBlocks, kBlocks * 100, kBlocks, kBlocks * 100);
  return 0;
}
