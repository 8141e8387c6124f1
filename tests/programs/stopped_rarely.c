// Answers each line on standard input, and does something that attach must wait for, or must notice. For tests of attach.
//   vfork  a thread cannot be stopped for 2 s, because it waits for the child of vfork
//   short  threads begin another one and end
//   guard  a thread's stack ends before a page that nobody may read, in the same mapping (MADV_GUARD_INSTALL: Linux 6.13), as with
//          glibc 2.42
// SIGUSR1 executes the program again. At the end it says for how long a thread did not run at all, of 50 ms and more at once.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static long NowMs(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void ExecuteAgain(int signal) {
  (void)signal;
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execl("/proc/self/exe", "executed_again", "again", (char*)NULL);
  _exit(9);
}

static volatile int is_over;
static volatile long stopped_ms;

static void* Watch(void* unused) {
  for (long before = NowMs(); !is_over;) {
    usleep(1000);
    const long now = NowMs();
    if (now - before >= 50) stopped_ms += now - before;
    before = now;
  }
  return unused;
}

static void* WaitForAChild(void* unused) {
  const struct timespec two_seconds = {2, 0};
  if (vfork() == 0) {
    nanosleep(&two_seconds, NULL);
    _exit(0);
  }
  return unused;
}

static void Begin(void* (*function)(void*)) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 256 << 10);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (pthread_create(&thread, &attributes, function, NULL) != 0) _exit(8);
  pthread_attr_destroy(&attributes);
}

static void* Sleep(void* unused) {
  while (!is_over) usleep(100000);
  return unused;
}

// False: the kernel has no such pages.
static int SleepBelowAGuard(void) {
  enum { kStack = 64 << 10, kGuardInstall = 102 };
  char* const stack = mmap(NULL, 3 * kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stack, kStack);
  return stack != MAP_FAILED && madvise(stack + kStack, kStack, kGuardInstall) == 0 &&
         pthread_create(&thread, &attributes, Sleep, NULL) == 0;
}

static void* BeginAnother(void* unused) {
  free(malloc(100));
  if (!is_over) Begin(BeginAnother);
  return unused;
}

int main(int argc, char** argv) {
  static char line[100];
  const char* how = argc > 1 ? argv[1] : "";
  signal(SIGUSR1, ExecuteAgain);
  setvbuf(stdin, NULL, _IONBF, 0);
  Begin(Watch);
  for (int i = 0; i < 3 && strcmp(how, "short") == 0; ++i) Begin(BeginAnother);
  if (strcmp(how, "guard") == 0 && !SleepBelowAGuard()) how = "without";
  printf("ready %s\n", how);
  fflush(stdout);
  for (int lines = 0; fgets(line, sizeof line, stdin) != NULL;) {
    if (strcmp(how, "vfork") == 0) Begin(WaitForAChild);
    for (int i = 0; i < 100; ++i) free(malloc(1000));
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
  is_over = 1;
  printf("stopped for %ld ms\n", stopped_ms);
  fflush(stdout);
  _exit(0);
}
