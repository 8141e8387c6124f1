// Has a dl_iterate_phdr of its own. After the line "fork", the next call of it lets a thread fork, and returns when the child has
// ended, which loads a library. Answers each line; at the end of the input, prints how many children were forked, and how many of
// them were not done after 10 seconds.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int is_wanted;
static int forked, hung;
static int to_thread[2], from_thread[2];

static void* Forks(void* unused) {
  char byte;
  while (read(to_thread[0], &byte, 1) == 1) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(10);
      _exit(dlopen("libm.so.6", RTLD_NOW) == NULL);
    }
    int status = 0;
    waitpid(child, &status, 0);
    ++forked;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) ++hung;
    if (write(from_thread[1], &byte, 1) != 1) return NULL;
  }
  return unused;
}

int dl_iterate_phdr(int (*visit)(struct dl_phdr_info*, size_t, void*), void* given) {
  char byte = 0;
  if (atomic_exchange(&is_wanted, 0) != 0 && write(to_thread[1], &byte, 1) == 1 && read(from_thread[0], &byte, 1) != 1)
    return -1;
  int (*const glibcs)(int (*)(struct dl_phdr_info*, size_t, void*), void*) =
      (int (*)(int (*)(struct dl_phdr_info*, size_t, void*), void*))dlsym(RTLD_NEXT, "dl_iterate_phdr");
  return glibcs(visit, given);
}

int main(void) {
  pthread_t forks;
  char line[100];
  int lines = 0;
  if (pipe(to_thread) != 0 || pipe(from_thread) != 0 || pthread_create(&forks, NULL, Forks, NULL) != 0) return 97;
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (strcmp(line, "fork\n") == 0) atomic_store(&is_wanted, 1);
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  printf("%d forked, %d hang\n", forked, hung);
  return 0;
}
