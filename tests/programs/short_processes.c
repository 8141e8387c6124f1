// Processes that compute for 3 ms, one after the other. Prints what all of them burned, and used in all, in nanoseconds.
//
//     short_processes executed|forked|threads|stacks COUNT
//
// executed: each is a new program. forked: each is a child that ends by _exit. threads: of each executed program two more
// threads compute, and still live at its end. stacks: the same, but they end before it, and have an alternate stack for
// signals as long as they compute (as Rust's do).
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double Ns(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

__attribute__((noinline)) void BurnShortly(void) {
  static volatile unsigned sink;
  const double end = Ns(CLOCK_THREAD_CPUTIME_ID) + 3e6;
  while (Ns(CLOCK_THREAD_CPUTIME_ID) < end) {
    for (unsigned i = 0; i < 1000; ++i) sink += i * i;
  }
}

static pthread_barrier_t burned;
static void* BurnAndStay(void* unused) {
  BurnShortly();
  pthread_barrier_wait(&burned);
  pause();
  return unused;
}

static void* BurnWithStack(void* unused) {
  enum { kBytes = 65536 };
  char* const bytes = mmap(NULL, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const stack_t stack = {.ss_sp = bytes, .ss_size = kBytes}, none = {.ss_flags = SS_DISABLE};
  if (sigaltstack(&stack, NULL) != 0) abort();
  BurnShortly();
  if (sigaltstack(&none, NULL) != 0) abort();
  return unused;
}

static void BurnInThreads(int stay) {
  pthread_t threads[2];
  pthread_barrier_init(&burned, NULL, 3);
  for (int i = 0; i < 2; ++i) {
    if (pthread_create(&threads[i], NULL, stay ? BurnAndStay : BurnWithStack, NULL) != 0) abort();
  }
  BurnShortly();
  if (stay) pthread_barrier_wait(&burned);
  for (int i = 0; i < 2 && !stay; ++i) pthread_join(threads[i], NULL);
}

int main(int count, char** arguments) {
  if (count < 3) return 2;
  const char* how = arguments[1];
  if (strcmp(arguments[2], "one") == 0) {
    const int stay = strcmp(how, "threads") == 0;
    stay || strcmp(how, "stacks") == 0 ? BurnInThreads(stay) : BurnShortly();
    return 0;
  }
  const int processes = atoi(arguments[2]);
  for (int i = 0; i < processes; ++i) {
    const pid_t child = fork();
    if (child < 0) abort();
    if (child == 0 && strcmp(how, "forked") == 0) {
      BurnShortly();
      _exit(0);
    }
    if (child == 0) {
      execl("/proc/self/exe", arguments[0], how, "one", NULL);
      _exit(127);
    }
    int status = 0;
    if (waitpid(child, &status, 0) != child || status != 0) return 1;
  }
  struct rusage children, self;
  getrusage(RUSAGE_CHILDREN, &children);
  getrusage(RUSAGE_SELF, &self);
  const double used =
      (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec + self.ru_utime.tv_sec + self.ru_stime.tv_sec) *
          1e9 +
      (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec + self.ru_utime.tv_usec + self.ru_stime.tv_usec) *
          1e3;
  printf("burned %.0f of %.0f\n", processes * 3e6 * (how[0] == 't' || how[0] == 's' ? 3 : 1), used);
  return 0;
}
