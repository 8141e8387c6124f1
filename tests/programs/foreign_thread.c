// A thread of the program's own clone, with a thread pointer of its own instead of libc's. It waits for a futex by libc's
// `syscall`, which needs no thread-local memory unless it fails.
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int go, waiting, done;

// Thread-local memory of libc is below the thread pointer: nothing may be written there.
static char memory[8192] __attribute__((aligned(64)));

static int Child(void* unused) {
  (void)unused;
  atomic_store(&waiting, 1);
  while (atomic_load(&go) == 0) syscall(SYS_futex, &go, FUTEX_WAIT, 0, NULL, NULL, 0);
  atomic_store(&done, 1);
  syscall(SYS_futex, &done, FUTEX_WAKE, 1, NULL, NULL, 0);
  syscall(SYS_exit, 0);
  return 0;
}

int main(void) {
  enum { kStack = 1 << 20 };
  void* const pointer = memory + sizeof memory / 2;
  for (int i = 0; i < 1000; ++i) free(malloc(1000));
  char* const stack = mmap(NULL, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  const int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
  if (stack == MAP_FAILED || clone(Child, stack + kStack, flags, NULL, NULL, pointer, NULL) < 0) return 97;
  while (atomic_load(&waiting) == 0) usleep(1000);
  usleep(20000);
  atomic_store(&go, 1);
  while (atomic_load(&done) == 0) {
    syscall(SYS_futex, &go, FUTEX_WAKE, 1, NULL, NULL, 0);
    usleep(1000);
  }
  usleep(20000);
  size_t zeros = 0;
  while (zeros < sizeof memory && memory[zeros] == 0) ++zeros;
  puts(zeros == sizeof memory ? "done" : "written");
  return 0;
}
