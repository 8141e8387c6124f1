// A program without libpthread, which older glibcs have apart. It uses thread functions where it finds them, and loads a
// plugin that brings libpthread.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#pragma weak pthread_once
#pragma weak pthread_mutex_trylock

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int calls;
static void Once(void) { ++calls; }

int main(int count, char** arguments) {
  if (count < 2) return 1;
  if (pthread_once) {
    pthread_once(&once, Once);
    pthread_once(&once, Once);
    if (calls != 1) return 2;
  }
  if (pthread_mutex_trylock && pthread_mutex_trylock(&mutex) != 0) return 3;
  void* plugin = dlopen(arguments[1], RTLD_NOW);
  if (plugin == NULL) return 4;
  int (*wait_for_thread)(void) = (int (*)(void))dlsym(plugin, "WaitForThread");
  if (wait_for_thread() != 0) return 5;
  if (dlclose(plugin) != 0) return 6;
  puts("ended well");
  return 7;
}
