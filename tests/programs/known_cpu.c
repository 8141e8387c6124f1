// Spends CPU time in known functions, and prints how much by the clock of each thread: `cpu FUNCTION NANOSECONDS`. The
// argument is the CPU time of the main thread, in seconds.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

static int64_t CpuNs(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static volatile unsigned sink;
__attribute__((noinline)) void BurnsMost(void) {
  for (unsigned i = 0; i < 300000; ++i) sink += i * i;
}
__attribute__((noinline)) void BurnsLittle(void) {
  for (unsigned i = 0; i < 100000; ++i) sink += i * i;
}
// In the kernel: its time belongs to the caller of the system call.
__attribute__((noinline)) void AsksTheKernel(void) {
  static char bytes[200000];
  if (getrandom(bytes, sizeof bytes, 0) < 0) abort();
}

static _Atomic int64_t in_threads;
static void* ShortThread(void* unused) {
  for (unsigned i = 0; i < 200000; ++i) sink += i;
  atomic_fetch_add(&in_threads, CpuNs());
  return unused;
}

int main(int count, char** arguments) {
  const int64_t wanted = (int64_t)((count > 1 ? atof(arguments[1]) : 0.5) * 1e9);
  const struct {
    const char* name;
    void (*run)(void);
  } parts[] = {{"BurnsMost", BurnsMost}, {"BurnsLittle", BurnsLittle}, {"AsksTheKernel", AsksTheKernel}};
  int64_t spent[3] = {0};
  for (int64_t before = CpuNs(); before < wanted;) {
    for (int i = 0; i < 3; ++i) {
      parts[i].run();
      const int64_t now = CpuNs();
      spent[i] += now - before;
      before = now;
    }
  }
  for (int i = 0; i < (count > 2 ? atoi(arguments[2]) : 0); ++i) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, ShortThread, NULL) != 0) abort();
    pthread_join(thread, NULL);
  }
  for (int i = 0; i < 3; ++i) printf("cpu %s %lld\n", parts[i].name, (long long)spent[i]);
  printf("cpu ShortThread %lld\n", (long long)atomic_load(&in_threads));
  free(malloc(1));
  return 0;
}
