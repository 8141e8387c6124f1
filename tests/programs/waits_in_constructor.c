// A plugin with a constructor that waits for a thread of the program; the loader's lock is held meanwhile.
#include <pthread.h>

void RunInThread(void);

static void* Run(void* argument) {
  RunInThread();
  return argument;
}

__attribute__((constructor)) static void Begin(void) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, Run, NULL) == 0) pthread_join(thread, NULL);
}
