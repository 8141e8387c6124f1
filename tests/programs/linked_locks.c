// An allocator in the executable with a lock of its own, and a lock of the program's. Another thread holds each of them
// until the kernel says that the main thread sleeps.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static char room[1 << 20];
static size_t used;
static pthread_mutex_t allocators = PTHREAD_MUTEX_INITIALIZER, programs = PTHREAD_MUTEX_INITIALIZER;

// Both locks are taken here.
__attribute__((noinline)) static void lock(pthread_mutex_t* mutex) { pthread_mutex_lock(mutex); }

__attribute__((noinline)) static void* take(size_t bytes) {
  lock(&allocators);
  void* block = room + used;
  used += (bytes + 31) & ~(size_t)15;
  pthread_mutex_unlock(&allocators);
  return block;
}
__attribute__((noinline)) static void* take_uncached(size_t bytes) {
  volatile size_t wanted = bytes;
  void* block = take(wanted);
  wanted = 0;
  return block;
}

#define FUNCTION(name, body)                                                                                    \
  ".globl " #name "\n.type " #name ",@function\n" #name ":\n.cfi_startproc\n" body ".cfi_endproc\n.size " #name \
  ",.-" #name "\n.p2align 4\n"
__asm__(".text\n.p2align 4\n"
        // As allocators do: a jump leads to the part that waits.
        FUNCTION(malloc, "mov %rdi,%rax\nnop\nnop\njmp malloc_default\n")
            FUNCTION(free, "mov %rdi,%rax\nmov %rdi,%rcx\nnop\nret\n"));
__attribute__((used, noinline)) void* malloc_default(size_t bytes) { return take_uncached(bytes); }
void mi_version(void) {}

static pthread_barrier_t begin;
static volatile int waits_next;  // 1: nothing but the wait makes the main thread sleep
static pid_t waiter;

static void* Hold(void* mutex) {
  // May allocate, so it comes before the lock.
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)waiter);
  pthread_mutex_lock(mutex);
  pthread_barrier_wait(&begin);
  while (!waits_next) sched_yield();
  while (1) {
    char text[256];
    const int file = (int)syscall(SYS_open, path, 0);
    const long count = syscall(SYS_read, file, text, sizeof text - 1);
    syscall(SYS_close, file);
    const char* at = text;
    for (long i = 0; i < count; ++i) at = text[i] == ')' ? text + i : at;
    if (at[2] == 'S') break;
    sched_yield();
  }
  pthread_mutex_unlock(mutex);
  return NULL;
}

__attribute__((noinline)) void waits_in_malloc(void) {
  if (malloc(100) == NULL) _exit(1);
}
__attribute__((noinline)) void waits_itself(void) {
  lock(&programs);
  pthread_mutex_unlock(&programs);
}

static void Contend(pthread_mutex_t* mutex, void (*wait)(void)) {
  pthread_t holder;
  pthread_create(&holder, NULL, Hold, mutex);
  pthread_barrier_wait(&begin);
  waits_next = 1;
  wait();
  waits_next = 0;
  pthread_join(holder, NULL);
}

int main(void) {
  waiter = getpid();
  pthread_barrier_init(&begin, NULL, 2);
  for (int i = 0; i < 5; ++i) {
    Contend(&allocators, waits_in_malloc);
    Contend(&programs, waits_itself);
  }
  return 0;
}
