// Creates children in every way while other threads allocate. `hard_processes CASE`; prints what happened.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"
#include "raw_fork.h"

extern char** environ;

KNOWN void* parent_allocates(size_t bytes) { return malloc(bytes); }
KNOWN void* child_allocates(size_t bytes) { return malloc(bytes); }

static atomic_int stop, running;
static pthread_mutex_t contended = PTHREAD_MUTEX_INITIALIZER;

static void* Allocates(void* unused) {
  (void)unused;
  unsigned seed = 7;
  ++running;
  while (!stop) {
    void* p = parent_allocates(rand_r(&seed) % 3000);
    pthread_mutex_lock(&contended);
    pthread_mutex_unlock(&contended);
    free(p);
  }
  return NULL;
}

static void StartThreads(pthread_t* threads) {
  for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, Allocates, NULL);
  while (running < 3) sched_yield();
}

static void EndThreads(pthread_t* threads) {
  stop = 1;
  for (int i = 0; i < 3; ++i) pthread_join(threads[i], NULL);
}

static void Work(void) {
  for (int i = 0; i < 200; ++i) free(child_allocates((size_t)i * 13));
}

static int Status(pid_t child, int options) {
  int status = -1;
  if (waitpid(child, &status, options) != child) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

// fork while three threads are in the middle of everything.
static void Storm(void) {
  pthread_t threads[3];
  StartThreads(threads);
  int good = 0;
  for (int i = 0; i < 40; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      Work();
      _exit(i);
    }
    good += Status(child, 0) == i;
  }
  EndThreads(threads);
  printf("%d of 40 children ended as they should\n", good);
}

static void InHandler(void) { free(malloc(1000)); }

static void AtFork(void) {
  for (int i = 0; i < 5; ++i) pthread_atfork(InHandler, InHandler, InHandler);
  Work();
  const pid_t child = fork();
  if (child == 0) {
    Work();
    exit(4);
  }
  printf("with handlers: %d\n", Status(child, 0));
}

// Children that libc knows nothing of, so that no handler of pthread_atfork runs.
static void Raw(void) {
  Work();
  pid_t child = RawFork();
  if (child == 0) {
    Work();
    _exit(3);
  }
  printf("_Fork: %d\n", Status(child, 0));
#ifdef SYS_fork  // arm64 has none
  child = (pid_t)syscall(SYS_fork);
#else
  child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
  if (child == 0) {
    Work();
    _exit(4);
  }
  printf("fork by number: %d\n", Status(child, 0));
  child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) {
    Work();
    _exit(5);
  }
  printf("clone by number: %d\n", Status(child, 0));
  child = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);  // without a signal at its end
  if (child == 0) {
    Work();
    _exit(6);
  }
  printf("clone without a signal: %d\n", Status(child, __WCLONE));
}

static int InClone(void* unused) {
  (void)unused;
  Work();
  return 7;
}

// Children that share this memory: what they allocate is the parent's to free.
static void* shared_block;
static void SharedMemory(void) {
  Work();
  pid_t child = vfork();
  if (child == 0) {
    shared_block = child_allocates(50000);
    free(child_allocates(100));
    _exit(5);
  }
  printf("vfork that allocates: %d\n", Status(child, 0));
  memset(shared_block, 1, 50000);
  free(shared_block);
  char* stack = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  child = clone(InClone, stack + (1 << 20), CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
  printf("clone with our memory: %d\n", Status(child, 0));
  char* arguments[] = {"/bin/true", NULL};
  for (int i = 0; i < 20; ++i) {
    posix_spawn(&child, "/bin/true", NULL, NULL, arguments, environ);
    if (Status(child, 0) != 0) printf("posix_spawn failed\n");
  }
}

// A child that shares the memory makes the very first allocation of all.
static void FirstInVfork(void) {
  const pid_t child = vfork();
  if (child == 0) {
    shared_block = child_allocates(100);
    _exit(2);
  }
  const int status = Status(child, 0);
  free(shared_block);
  Work();
  Expect("child_allocates", 200, 258700, 0, 0);
  printf("first allocation in vfork: %d\n", status);
}

// What a shell does: any child that comes is its own.
static void WaitsForAny(void) {
  Work();
  int status = 0;
  for (int i = 0; i < 10; ++i) {
    if (fork() == 0) _exit(i);
  }
  int count = 0, sum = 0;
  while (waitpid(-1, &status, 0) > 0) ++count, sum += WEXITSTATUS(status);
  printf("waited for %d children, sum %d\n", count, sum);
  const pid_t any = waitpid(-1, &status, __WALL);
  printf("none is left: %d\n", any);
}

// A reader sees the end of a pipe when its last writer is gone: nothing of ours may hold on to it.
static void PipeEnd(void) {
  int ends[2];
  if (pipe(ends)) return;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    Work();
    _exit(0);
  }
  Work();
  close(ends[1]);
  char byte;
  printf("read %zd\n", read(ends[0], &byte, 1));
  printf("child %d\n", Status(child, 0));
}

// Its own session leader ends while the child goes on.
static void Daemon(void) {
  Work();
  const pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() == 0) {
      Work();
      _exit(0);
    }
    _exit(6);
  }
  printf("daemon's parent: %d\n", Status(child, 0));
}

// A handler that forks, in the middle of whatever it interrupted; then main ends while threads allocate.
static volatile sig_atomic_t forked, ended_well;
static void Forks(int signal) {
  (void)signal;
  const pid_t child = fork();
  if (child == 0) {
    free(child_allocates(50));
    _exit(9);
  }
  ++forked;
  ended_well += Status(child, 0) == 9;
}

static void ForkInHandler(void) {
  pthread_t threads[3];
  // Only in this thread, which holds nothing of the allocator's when it is interrupted.
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &one, NULL);
  StartThreads(threads);
  signal(SIGUSR1, Forks);
  pthread_sigmask(SIG_UNBLOCK, &one, NULL);
  for (int i = 0; i < 40; ++i) kill(getpid(), SIGUSR1);
  printf("forked %d, well ended %d\n", (int)forked, (int)ended_well);
  exit(3);
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IONBF, 0);
  static const struct {
    const char* name;
    void (*run)(void);
  } cases[] = {{"storm", Storm},
               {"atfork", AtFork},
               {"raw", Raw},
               {"shared_memory", SharedMemory},
               {"first_in_vfork", FirstInVfork},
               {"waits_for_any", WaitsForAny},
               {"pipe_end", PipeEnd},
               {"daemon", Daemon},
               {"fork_in_handler", ForkInHandler}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (!strcmp(which, cases[i].name)) return cases[i].run(), 0;
  }
  return 99;
}
