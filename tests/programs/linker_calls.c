// One thread makes calls of the dynamic linker. They wait for a lock of the program, and its holder is in the program's code:
//
//     linker_calls callback              dl_iterate_phdr: its callback takes the lock
//     linker_calls constructor PLUGIN    dlopen: the constructor of the library takes it
//
// Prints "ready", and at the end of the input how many calls were made.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

pthread_mutex_t linker_calls_lock = PTHREAD_MUTEX_INITIALIZER;
static const char* plugin;
static volatile int stop;
static long calls;

static int Callback(struct dl_phdr_info* info, size_t size, void* data) {
  pthread_mutex_lock(&linker_calls_lock);
  pthread_mutex_unlock(&linker_calls_lock);
  return info != NULL && size != 0 && data != NULL;
}

static void* Calls(void* unused) {
  while (!stop) {
    if (plugin == NULL) {
      dl_iterate_phdr(Callback, NULL);
    } else {
      void* library = dlopen(plugin, RTLD_NOW);
      if (library == NULL) break;
      dlclose(library);
    }
    ++calls;
    poll(NULL, 0, 3);
  }
  return unused;
}

// Holds the lock for 15 of 20 ms.
int main(int argc, char** argv) {
  if (argc < 2) return 2;
  if (strcmp(argv[1], "constructor") == 0) plugin = argv[2];
  pthread_t thread;
  if (pthread_create(&thread, NULL, Calls, NULL) != 0) return 97;
  puts("ready");
  fflush(stdout);
  struct pollfd input = {0, POLLIN, 0};
  do {
    pthread_mutex_lock(&linker_calls_lock);
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
      clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000 + now.tv_nsec - begin.tv_nsec < 15000000);
    pthread_mutex_unlock(&linker_calls_lock);
  } while (poll(&input, 1, 5) == 0);
  stop = 1;
  pthread_join(thread, NULL);
  printf("%ld calls\n", calls);
  return calls == 0;
}
