// Allocates below a given number of frames of a recursion: by itself, by two functions that call each other, and in a thread.
//   deep_stacks DEPTH...
#include <pthread.h>
#include <stdlib.h>

#include "known.h"

KNOWN void allocates_deep(void) { Use(malloc(100)); }

KNOWN void recurses(int left) {
  if (left == 0)
    allocates_deep();
  else
    recurses(left - 1);
  Use(&left);
}

KNOWN void parses_list(int left);
KNOWN void parses_value(int left) {
  if (left == 0)
    allocates_deep();
  else
    parses_list(left - 1);
  Use(&left);
}
KNOWN void parses_list(int left) {
  parses_value(left);
  Use(&left);
}

KNOWN void* thread_begins(void* depth) {
  recurses(*(int*)depth);
  return NULL;
}

int main(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    int depth = atoi(argv[i]);
    recurses(depth);
    parses_value(depth);
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_begins, &depth) != 0) return 1;
    pthread_join(thread, NULL);
  }
  const size_t count = 3 * ((size_t)argc - 1);
  Expect("allocates_deep", count, 100 * count, count, 100 * count);
  return 0;
}
