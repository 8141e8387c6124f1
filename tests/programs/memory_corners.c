// What an account of memory must neither misjudge nor touch.
//
//     memory_corners reserves      256 GiB of writable memory with one page written; and 8 MiB by sbrk
//     memory_corners gives_back    100 blocks of 100,000 bytes, with 22 pages each returned to the kernel
//     memory_corners leaves_main   20 MiB in a thread that continues after main has called pthread_exit
//     memory_corners forks         20 MiB in many blocks, then a child that allocates 5 MiB
//
// Each prints ready and waits for a line.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1024ul * 1024)

static void* Touched(void* block, size_t bytes) { return memset(block, 1, bytes); }
static void Wait(void) {
  printf("ready\n");
  fflush(stdout);
  getchar();
}

static void Reserves(void) {
  const size_t bytes = 256 * 1024 * MIB;
  char* reserved = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) exit(9);
  Touched(reserved + bytes / 2, 1);
  Touched(sbrk(8 * MIB), 8 * MIB);
}

static void GivesBack(void) {
  const uintptr_t page = 4096;
  for (int i = 0; i < 100; ++i) {
    char* block = Touched(malloc(100000), 100000);
    madvise(block + (page - (uintptr_t)block % page), 22 * page, MADV_DONTNEED);
  }
}

static void* GoesOn(void* unused) {
  Touched(malloc(20 * MIB), 20 * MIB);
  Wait();
  return unused;
}

static void Forks(void) {
  for (int i = 0; i < 20 * 1024; ++i) Touched(malloc(1000), 1000);
  if (fork() != 0) {
    wait(NULL);
    exit(0);
  }
  Touched(malloc(5 * MIB), 5 * MIB);
}

int main(int count, char** arguments) {
  const char* how = count > 1 ? arguments[1] : "";
  if (strcmp(how, "reserves") == 0) Reserves();
  if (strcmp(how, "gives_back") == 0) GivesBack();
  if (strcmp(how, "forks") == 0) Forks();
  if (strcmp(how, "leaves_main") == 0) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, GoesOn, NULL) == 0) pthread_exit(NULL);
  }
  Wait();
  return 0;
}
