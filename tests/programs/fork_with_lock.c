// As with glibc 2.35, where fork holds the lock of its handlers while it runs them: __register_atfork is this program's, and takes a
// lock of the same kind. A thread has it, as if it were in fork, and waits in a handler for a lock that main holds while main
// waits for input: until the line "fork". Answers each line.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int list_lock;
static pthread_mutex_t of_main = PTHREAD_MUTEX_INITIALIZER;
static sem_t is_in_fork;

// Returns the value before.
static inline __attribute__((always_inline)) int Take(void) {
  int before = 0;
  __asm__ volatile("lock cmpxchgl %2, %1" : "+a"(before), "+m"(list_lock) : "r"(1) : "memory");
  return before;
}

int __register_atfork(void (*before)(void), void (*after)(void), void (*in_child)(void), void* library) {
  while (Take() != 0) usleep(1000);
  int (*const glibcs)(void (*)(void), void (*)(void), void (*)(void), void*) =
      (int (*)(void (*)(void), void (*)(void), void (*)(void), void*))dlsym(RTLD_NEXT, "__register_atfork");
  const int result = glibcs(before, after, in_child, library);
  __atomic_store_n(&list_lock, 0, __ATOMIC_RELEASE);
  return result;
}

static void* Forks(void* unused) {
  while (Take() != 0) usleep(1000);
  sem_post(&is_in_fork);
  pthread_mutex_lock(&of_main);
  pthread_mutex_unlock(&of_main);
  __atomic_store_n(&list_lock, 0, __ATOMIC_RELEASE);
  return unused;
}

int main(void) {
  pthread_t forks;
  char line[100];
  int lines = 0;
  pthread_mutex_lock(&of_main);
  sem_init(&is_in_fork, 0, 0);
  if (pthread_create(&forks, NULL, Forks, NULL) != 0) return 97;
  sem_wait(&is_in_fork);
  puts("ready");
  fflush(stdout);
  while (fgets(line, sizeof line, stdin) != NULL) {
    if (strcmp(line, "fork\n") == 0) {
      pthread_mutex_unlock(&of_main);
      pthread_join(forks, NULL);
    }
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  return 0;
}
