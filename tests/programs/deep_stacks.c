// Allocates below a given number of frames of a recursion: by itself, by two functions that call each other, and in a thread.
//   deep_stacks DEPTH[xTIMES]...
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "known.h"

static int times;
KNOWN void allocates_deep(void) {
  for (int i = 0; i < times; ++i) Use(malloc(100));
}

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
  size_t count = 0;
  for (int i = 1; i < argc; ++i) {
    int depth = atoi(argv[i]);
    const char* separator = strchr(argv[i], 'x');
    times = separator != NULL ? atoi(separator + 1) : 1;
    count += 3 * (size_t)times;
    recurses(depth);
    parses_value(depth);
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_begins, &depth) != 0) return 1;
    pthread_join(thread, NULL);
  }
  Expect("allocates_deep", count, 100 * count, count, 100 * count);
  return 0;
}
