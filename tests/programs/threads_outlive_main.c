// Ends by the way that is named (return, exit) while a thread still allocates. An exit handler frees what main held.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { kHeld = 100 };
static void* held[kHeld];

__attribute__((noinline)) void hold(void) {
  for (int i = 0; i < kHeld; ++i) held[i] = malloc(1000);
}
__attribute__((noinline)) void* thread_allocates(void) { return malloc(50); }

static void* Allocates(void* begun) {
  close(*(int*)begun);
  for (;;) free(thread_allocates());
  return NULL;
}

static void Handler(void) {
  (void)!write(1, "handler\n", 8);
  for (int i = 0; i < kHeld; ++i) free(held[i]);
}

int main(int argc, char** argv) {
  int begun[2];
  pthread_t thread;
  char none;
  atexit(Handler);
  hold();
  if (pipe(begun) != 0 || pthread_create(&thread, NULL, Allocates, &begun[1]) != 0) return 1;
  (void)!read(begun[0], &none, 1);  // until the thread runs
  if (argc > 1 && !strcmp(argv[1], "exit")) exit(7);
  return 7;
}
