// Programs that a call of ours in one of their threads would end:
//
//     attach_harms dispatch   only libc may make system calls (Syscall User Dispatch)
//     attach_harms clock      the processor may not read the time (PR_SET_TSC)
//     attach_harms pointer    the only thread that can be borrowed has a thread pointer that is not libc's
//     attach_harms coroutine  the only thread that can be borrowed waits on a coroutine's stack with 4 KiB left. Below is another
//                             one, in use. Both are in one mapping with the thread's own stack, which is above
//
//     attach_harms inner      the same with both stacks in an array on main's own stack
//     attach_harms tables     its only thread waits in a function without unwind tables
//     attach_harms lock       all memory is locked, also what is mapped later, and 2 MiB more may be (RLIMIT_MEMLOCK). Not as root
//
// Prints "ready"; ends with 0 when its input does, or after 30 s.
#define _GNU_SOURCE
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

static volatile char selector = 0;

static int DispatchAllButLibc(void) {
  FILE* const maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long start = 0, end = 0, from, to;
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    if (strstr(line, "/libc.so") == NULL || sscanf(line, "%lx-%lx", &from, &to) != 2) continue;
    if (start == 0) start = from;
    end = to;
  }
  fclose(maps);
  const int result = prctl(PR_SET_SYSCALL_USER_DISPATCH, 1, start, end - start, &selector);
  selector = 1;
  return result;
}

// Not libc's: of a runtime with a thread block of its own, above its stack.
static struct {
  char stack[1 << 18];
  void* block[512];
} runtime __attribute__((aligned(64)));

__attribute__((noinline)) static long Call(long number, long first, long second, long third) {
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(first), "S"(second), "d"(third)
                   : "rcx", "r11", "memory");
  return result;
}
static int queue;
static int Foreign(void* unused) {
  (void)unused;
  struct pollfd input = {.fd = 0, .events = POLLIN};
  for (int i = 0; i < 300 && Call(SYS_poll, (long)&input, 1, 100) == 0;) ++i;
  Call(SYS_msgctl, queue, IPC_RMID, 0);
  Call(SYS_exit_group, 0, 0, 0);
  return 0;
}

enum { kStack = 16 << 10, kUsed = 12 << 10, kStacks = 16, kThreadStack = 256 << 10 };
static ucontext_t program, waits, is_below;
static volatile int is_changed;

static void Wait(void) {
  volatile char used[kUsed];
  used[0] = used[kUsed - 1] = 1;
  struct pollfd input = {.fd = 0, .events = POLLIN};
  for (int i = 0; i < 600 && poll(&input, 1, 50) == 0; ++i) swapcontext(&waits, &program);
  swapcontext(&waits, &program);  // the other one looks once more
  msgctl(queue, IPC_RMID, NULL);
  _exit(is_changed);
}

static void CheckOwnStack(void) {
  volatile unsigned long words[kUsed / sizeof(unsigned long)];
  for (unsigned long i = 0; i < sizeof words / sizeof words[0]; ++i) words[i] = ~i;
  for (;; swapcontext(&is_below, &program)) {
    for (unsigned long i = 0; i < sizeof words / sizeof words[0]; ++i) is_changed |= words[i] != ~i;
  }
}

// The outermost function of a coroutine, where a walk of its stack ends. rbx: the function that it runs.
__asm__(
    ".pushsection .text\n"
    ".type begin_coroutine, @function\n"
    "begin_coroutine:\n"
    ".cfi_startproc\n"
    ".cfi_undefined rip\n"
    "call *%rbx\n"
    "ud2\n"
    ".cfi_endproc\n"
    ".size begin_coroutine, . - begin_coroutine\n"
    ".popsection\n");
void begin_coroutine(void) __attribute__((visibility("hidden")));

static void* Alternate(void* stacks) {
  ucontext_t* const all[] = {&is_below, &waits};
  void (*const begin[])(void) = {CheckOwnStack, Wait};
  for (int i = 0; i < 2; ++i) {
    getcontext(all[i]);
    all[i]->uc_mcontext.gregs[REG_RSP] = (greg_t)((char*)stacks + (9 + i) * kStack);
    all[i]->uc_mcontext.gregs[REG_RIP] = (greg_t)begin_coroutine;
    all[i]->uc_mcontext.gregs[REG_RBX] = (greg_t)begin[i];
  }
  for (int i = 0;; ++i) {
    swapcontext(&program, &is_below);
    if (i == 1) puts("ready");
    swapcontext(&program, &waits);
  }
  return stacks;
}

// Waits in a call that no attach interrupts.
static void WaitForEver(void) {
  struct {
    long type;
    char text[8];
  } message;
  for (;;) msgrcv(queue, &message, sizeof message.text, 0, 0);
}

static void AlternateInAThread(void) {
  char* const stacks =
      mmap(NULL, kStacks * kStack + kThreadStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, stacks + kStacks * kStack, kThreadStack);
  queue = msgget(IPC_PRIVATE, 0600);
  pthread_create(&thread, &attributes, Alternate, stacks);
  WaitForEver();
}

static void AlternateOnOwnStack(void) {
  char stacks[kStacks * kStack];
  Alternate(stacks);
}

// Waits for input, and ends the process. Clears the stack up to `end`: from frames there, a walk may go on.
__asm__(
    ".pushsection .text\n"
    ".type wait_without_tables, @function\n"
    "wait_without_tables:\n"
    "xor %ebp, %ebp\n"
    "push $0\n"
    "sub $64, %rsp\n"
    "mov %rdi, %rcx\n"
    "mov %rsp, %rdi\n"
    "sub %rdi, %rcx\n"
    "xor %eax, %eax\n"
    "rep stosb\n"
    "xor %edi, %edi\n"
    "mov %rsp, %rsi\n"
    "mov $1, %edx\n"
    "xor %eax, %eax\n"
    "syscall\n"  // read
    "xor %edi, %edi\n"
    "mov $231, %eax\n"
    "syscall\n"  // exit_group
    ".size wait_without_tables, . - wait_without_tables\n"
    ".popsection\n");
void wait_without_tables(char* end) __attribute__((visibility("hidden")));

int main(int count, char** arguments) {
  const char* const how = count > 1 ? arguments[1] : "";
  setvbuf(stdout, NULL, _IONBF, 0);
  const int refused = strcmp(how, "dispatch") == 0 ? DispatchAllButLibc()
                      : strcmp(how, "clock") == 0  ? prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0)
                                                   : 0;
  if (refused != 0) {
    puts("not supported");
    return 0;
  }
  if (strcmp(how, "pointer") == 0) {
    queue = msgget(IPC_PRIVATE, 0600);
    runtime.block[0] = runtime.block[2] = runtime.block;
    clone(Foreign, runtime.stack + sizeof runtime.stack,
          CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS, NULL, NULL,
          runtime.block, NULL);
    puts("ready");
    WaitForEver();
  }
  if (strcmp(how, "coroutine") == 0) AlternateInAThread();
  if (strcmp(how, "inner") == 0) AlternateOnOwnStack();
  if (strcmp(how, "lock") == 0) {
    const struct rlimit limit = {6 << 20, 6 << 20};
    if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
      puts("not supported");
      return 0;
    }
  }
  puts("ready");
  if (strcmp(how, "tables") == 0) wait_without_tables((char*)arguments - sizeof(void*));
  struct pollfd input = {.fd = 0, .events = POLLIN};
  for (int i = 0; i < 300 && poll(&input, 1, 100) == 0; ++i) free(malloc(20000));
  return 0;
}
