// From the first line of input on, several threads fork all the time, and each child loads a library. Answers each line; at the
// end of the input, prints how many children were not done after 20 seconds.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int stop, hung;

static void* Forks(void* unused) {
  while (atomic_load(&stop) == 0) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      void* library = dlopen("libm.so.6", RTLD_NOW);
      if (library != NULL) dlclose(library);
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) atomic_fetch_add(&hung, 1);
  }
  return unused;
}

int main(void) {
  enum { kThreads = 4 };
  pthread_t threads[kThreads];
  int lines = 0;
  char line[100];
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    for (int i = 0; lines == 0 && i < kThreads; ++i) {
      if (pthread_create(&threads[i], NULL, Forks, NULL) != 0) return 97;
    }
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  atomic_store(&stop, 1);
  for (int i = 0; lines != 0 && i < kThreads; ++i) pthread_join(threads[i], NULL);
  printf("%d hang\n", atomic_load(&hung));
  return 0;
}
