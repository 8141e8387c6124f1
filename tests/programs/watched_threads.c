// Threads that scripts/wall looks at, until a line is read. Prints `ready` before.
//
//     watched_threads compute|wake|sleep THREADS
//
// compute: each computes all the time. wake: each wakes 16 times a second, for some microseconds. sleep: each sleeps.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const char* mode;
static volatile unsigned sink;

static void* Work(void* argument) {
  unsigned seed = (unsigned)(size_t)argument;
  char name[16];
  snprintf(name, sizeof name, "%s-%u", mode, seed);
  pthread_setname_np(pthread_self(), name);
  for (;;) {
    if (strcmp(mode, "sleep") == 0) pause();
    for (unsigned i = 0; i < 1000; ++i) sink += i * i;
    if (strcmp(mode, "compute") == 0) continue;
    // From half to one and a half of a sixteenth of a second.
    const struct timespec time = {0, (long)(62500000 * (0.5 + rand_r(&seed) / (double)RAND_MAX))};
    nanosleep(&time, NULL);
  }
  return NULL;
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  mode = arguments[1];
  const int threads = atoi(arguments[2]);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 128 << 10);
  for (int i = 1; i <= threads; ++i) {
    pthread_t id;
    if (pthread_create(&id, &small, Work, (void*)(size_t)i) != 0) abort();
  }
  puts("ready");
  fflush(stdout);
  getchar();
  _exit(0);
}
