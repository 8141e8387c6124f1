// Does at each line of standard input what an attach or a detach may meet, and answers "done NUMBER". For tests of attach.
//     hold      takes a mutex; another thread waits for it until `release`
//     fork      a child allocates 100 blocks in for_each_line and exits
//     exec      the same child executes this program, which does so and exits
//     child     a child answers from now on; the parent waits for the child's end
//     steps     answers with the instructions of one malloc and one free, before "done"
//     ids       from now on, a thread sets the group id to what it is, which interrupts all other threads
//     fail      dlopen of a library that does not exist; `explain` expects what dlerror says of it
//     calm      ends that thread, and those of `attach_moments LIBRARY`, which load and unload it all the time
//     attach_moments inside    reads the lines in a function that qsort calls
//     attach_moments moved     has moved its code to memory without a file, as programs do that put it on huge pages
//     attach_moments ended     reads the lines in a thread; main ends by pthread_exit
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "known.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static const char* library;
static volatile int is_calm, mistakes;

KNOWN void* for_each_line(void) { return malloc(1000); }
static void Allocate(void) {
  for (int i = 0; i < 100; ++i) free(for_each_line());
}

static void* TakeMutex(void* unused) {
  pthread_mutex_lock(&mutex);
  pthread_mutex_unlock(&mutex);
  return unused;
}

static void* LoadAndUnload(void* unused) {
  while (!is_calm) {
    void* handle = dlopen(library, RTLD_NOW);
    if (handle == NULL || dlclose(handle) != 0) ++mistakes;
    free(malloc(100));
    usleep(1000);
  }
  return unused;
}

#if defined(__x86_64__)
static volatile long steps;
static void CountStep(int signal) {
  (void)signal;
  ++steps;
}
// The least of several: an allocator may tidy up in one of them.
static long LeastSteps(void) {
  long least = 1L << 40;
  signal(SIGTRAP, CountStep);
  for (int i = 0; i < 30; ++i) {
    steps = 0;
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
    void* block = malloc(64);
    Use(block);
    free(block);
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
    if (steps < least) least = steps;
  }
  return least;
}
#else
static long LeastSteps(void) { return 0; }
#endif

static void* SetIds(void* unused) {
  while (!is_calm) {
    if (setgid(getgid()) != 0) ++mistakes;
  }
  return unused;
}

static void InAChild(int executes) {
  const pid_t child = fork();
  if (child == 0) {
    if (executes) execl("/proc/self/exe", "attach_moments", "allocates", (char*)NULL);
    Allocate();
    exit(0);
  }
  int status = 1;
  if (waitpid(child, &status, 0) != child || status != 0) ++mistakes;
}

static void GoOnInAChild(void) {
  int status = 1;
  const pid_t child = fork();
  if (child == 0) return;
  waitpid(child, &status, 0);
  _exit(status != 0);
}

static void Serve(void) {
  static char line[100];
  pthread_t waiter, sets_ids;
  for (int lines = 0; fgets(line, sizeof line, stdin) != NULL;) {
    Allocate();
    if (strcmp(line, "hold\n") == 0) {
      pthread_mutex_lock(&mutex);
      pthread_create(&waiter, NULL, TakeMutex, NULL);
    }
    if (strcmp(line, "release\n") == 0) {
      pthread_mutex_unlock(&mutex);
      pthread_join(waiter, NULL);
    }
    if (strcmp(line, "ids\n") == 0) pthread_create(&sets_ids, NULL, SetIds, NULL);
    if (strcmp(line, "fail\n") == 0 && dlopen("/nothing.so", RTLD_NOW) != NULL) ++mistakes;
    if (strcmp(line, "explain\n") == 0) {
      const char* const said = dlerror();
      if (said == NULL || strstr(said, "/nothing.so") == NULL) ++mistakes;
    }
    if (strcmp(line, "calm\n") == 0) is_calm = 1;
    if (strcmp(line, "fork\n") == 0) InAChild(0);
    if (strcmp(line, "exec\n") == 0) InAChild(1);
    if (strcmp(line, "child\n") == 0) GoOnInAChild();
    if (strcmp(line, "steps\n") == 0) printf("steps %ld\n", LeastSteps());
    if (mistakes != 0) printf("mistakes %d\n", mistakes);
    printf("done %d\n", ++lines);
    fflush(stdout);
  }
}

static int ServeOnce(const void* one, const void* other) {
  static int served;
  (void)one, (void)other;
  if (!served++) Serve();
  return 0;
}

// The alignment moves an allocator that is linked into the program: an entry that crosses the end of a page is refused.
__attribute__((aligned(64))) static int MoveCode(void) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[4096], rights[5];
  unsigned long start = 0, end = 0;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && rights[2] == 'x') break;
  }
  if (maps != NULL) fclose(maps);
  char* const copy = mmap(NULL, end - start, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED) return 1;
  memcpy(copy, (void*)start, end - start);
  return mprotect(copy, end - start, PROT_READ | PROT_EXEC) != 0 ||
         mremap(copy, end - start, end - start, MREMAP_MAYMOVE | MREMAP_FIXED, (void*)start) == MAP_FAILED;
}

static void* ServeAndExit(void* unused) {
  (void)unused;
  Serve();
  exit(mistakes != 0);
}

int main(int argc, char** argv) {
  setvbuf(stdin, NULL, _IONBF, 0);
  if (argc > 1 && strcmp(argv[1], "allocates") == 0) {
    Allocate();
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "moved") == 0) {
    if (MoveCode() != 0) return 1;
    argc = 1;
  }
  printf("ready\n");
  fflush(stdout);
  if (argc > 1 && strcmp(argv[1], "inside") == 0) {
    int numbers[2] = {2, 1};
    qsort(numbers, 2, sizeof numbers[0], ServeOnce);
    return 0;
  }
  pthread_t threads[2];
  if (argc > 1 && strcmp(argv[1], "ended") == 0) {
    pthread_create(threads, NULL, ServeAndExit, NULL);
    pthread_exit(NULL);
  }
  library = argc > 1 ? argv[1] : NULL;
  for (int i = 0; i < 2 && library != NULL; ++i) pthread_create(&threads[i], NULL, LoadAndUnload, NULL);
  Serve();
  is_calm = 1;
  for (int i = 0; i < 2 && library != NULL; ++i) pthread_join(threads[i], NULL);
  return mistakes != 0;
}
