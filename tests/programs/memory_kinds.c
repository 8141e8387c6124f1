// Memory of every kind with known sizes, all touched unless stated otherwise; then it waits.
//   40 MiB in blocks of 1,024 bytes; every second one is freed
//   24 MiB in one block that is never touched
//   16 MiB mapped by the program itself
//    1 MiB of a thread's stack
//    8 MiB of zero-initialized data (.bss)
//     memory_kinds [joined]      joined: the stack is directly below the program's mapping, and the kernel makes one of them
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { kBlock = 1024, kBlocks = 40 << 10, kMiB = 1 << 20, kStack = 8 * kMiB, kGuard = 64 << 10 };
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

// The library does not see these mappings: they are as libc's own. (It sees those of `syscall`.)
static char* map_unseen(void* at, size_t bytes, int rights, int flags) {
#if defined(__x86_64__)
  long result = SYS_mmap;
  register long r10 __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS | flags;
  register long r8 __asm__("r8") = -1;
  register long r9 __asm__("r9") = 0;
  __asm__ volatile("syscall"
                   : "+a"(result)
                   : "D"(at), "S"(bytes), "d"((long)rights), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return (char*)result;
#else
  register long x8 __asm__("x8") = SYS_mmap;
  register long x0 __asm__("x0") = (long)at;
  register long x1 __asm__("x1") = (long)bytes;
  register long x2 __asm__("x2") = rights;
  register long x3 __asm__("x3") = MAP_PRIVATE | MAP_ANONYMOUS | flags;
  register long x4 __asm__("x4") = -1;
  register long x5 __asm__("x5") = 0;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return (char*)x0;
#endif
}

int main(int argc, char** argv) {
  for (int i = 0; i < kBlocks; ++i) memset(blocks[i] = malloc(kBlock), 1, kBlock);
  for (int i = 0; i < kBlocks; i += 2) free(blocks[i]);
  untouched = malloc(24 * kMiB);
  memset(zeros, 1, sizeof zeros);
  __asm__ volatile("" : : "r"(zeros) : "memory");
  const int joined = argc > 1;
  char* stack = joined ? map_unseen(NULL, kGuard + kStack + 16 * kMiB, PROT_NONE, 0) + kGuard : NULL;
  void* mapped = mmap(joined ? stack + kStack : NULL, 16 * kMiB, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | (joined ? MAP_FIXED : 0), -1, 0);
  memset(mapped, 1, 16 * kMiB);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (joined) pthread_attr_setstack(&attributes, map_unseen(stack, kStack, PROT_READ | PROT_WRITE, MAP_FIXED), kStack);
  pthread_barrier_init(&is_deep, NULL, 2);
  pthread_t thread;
  if (pthread_create(&thread, &attributes, use_stack, NULL) != 0) return 3;
  pthread_barrier_wait(&is_deep);
  printf("ready\n");
  fflush(stdout);
  pause();
  return 0;
}
