// Memory of every kind with known sizes, all touched unless stated otherwise; then it waits.
//   40 MiB in blocks of 1,024 bytes; every second one is freed
//   24 MiB in one block that is never touched
//   16 MiB mapped by the program itself
//    1 MiB of a thread's stack
//    8 MiB of zero-initialized data (.bss)
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { kBlock = 1024, kBlocks = 40 << 10, kMiB = 1 << 20 };
static char* blocks[kBlocks];
static void* untouched;
static char zeros[8 << 20];
static pthread_barrier_t is_deep;

static void* use_stack(void* unused) {
  volatile char deep[kMiB];
  memset((char*)deep, 1, sizeof deep);
  pthread_barrier_wait(&is_deep);
  pause();
  return (void*)(size_t)deep[0];
}

int main(void) {
  for (int i = 0; i < kBlocks; ++i) memset(blocks[i] = malloc(kBlock), 1, kBlock);
  for (int i = 0; i < kBlocks; i += 2) free(blocks[i]);
  untouched = malloc(24 * kMiB);
  memset(zeros, 1, sizeof zeros);
  __asm__ volatile("" : : "r"(zeros) : "memory");
  void* mapped = mmap(NULL, 16 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memset(mapped, 1, 16 * kMiB);
  pthread_barrier_init(&is_deep, NULL, 2);
  pthread_t thread;
  if (pthread_create(&thread, NULL, use_stack, NULL) != 0) return 3;
  pthread_barrier_wait(&is_deep);
  printf("ready\n");
  fflush(stdout);
  pause();
  return 0;
}
