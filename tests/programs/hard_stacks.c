// Allocates on every kind of stack. `hard_stacks CASE`; prints what happened.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

#include "known.h"

KNOWN void* on_some_stack(size_t bytes) { return malloc(bytes); }

static void Work(void) {
  for (int i = 0; i < 100; ++i) free(on_some_stack(100 + (size_t)i));
}

// ---- coroutines ----

static ucontext_t main_context, contexts[3];
static int steps;

static void Coroutine(void) {
  while (steps < 60) {
    Work();
    const int self = steps++ % 3;
    swapcontext(&contexts[self], steps < 60 ? &contexts[steps % 3] : &main_context);
  }
}

static void Coroutines(void) {
  for (int i = 0; i < 3; ++i) {
    // One from malloc, one with a guard page, one directly below memory that may not be read.
    const size_t bytes = 32 << 10;
    char* stack = malloc(bytes);
    if (i > 0) {
      stack = mmap(NULL, bytes + 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      mprotect(stack, 4096, PROT_NONE);
      if (i == 2) mprotect(stack + 4096 + bytes, 4096, PROT_NONE);
      stack += 4096;
    }
    getcontext(&contexts[i]);
    contexts[i].uc_stack.ss_sp = stack;
    contexts[i].uc_stack.ss_size = bytes;
    contexts[i].uc_link = &main_context;
    makecontext(&contexts[i], Coroutine, 0);
  }
  swapcontext(&main_context, &contexts[0]);
  printf("%d steps\n", steps);
}

// A coroutine's stack is unmapped, its addresses are used for something unreadable, and the next one comes.
static void OneStep(void) {
  Work();
  setcontext(&main_context);
}

static void UnmappedStacks(void) {
  static volatile int round;
  for (round = 0; round < 50; ++round) {
    static char* stack;
    stack = mmap(NULL, 64 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    static volatile int back;
    back = 0;
    getcontext(&main_context);
    if (back == 0) {
      back = 1;
      getcontext(&contexts[0]);
      contexts[0].uc_stack.ss_sp = stack;
      contexts[0].uc_stack.ss_size = 64 << 10;
      contexts[0].uc_link = NULL;
      makecontext(&contexts[0], OneStep, 0);
      setcontext(&contexts[0]);
    }
    munmap(stack, 64 << 10);
    Work();
  }
  printf("%d rounds\n", round);
}

// ---- small and strange stacks of threads ----

static void* TinyThread(void* unused) {
  (void)unused;
  Work();
  return NULL;
}

static void TinyThreads(void) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
  pthread_attr_setguardsize(&attributes, 4096);
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    if (pthread_create(&thread, &attributes, TinyThread, NULL)) printf("no thread\n");
    pthread_join(thread, NULL);
  }
  static char own[128 << 10] __attribute__((aligned(4096)));
  pthread_attr_setstack(&attributes, own, sizeof own);
  pthread_t thread;
  pthread_create(&thread, &attributes, TinyThread, NULL);
  pthread_join(thread, NULL);
  pthread_attr_destroy(&attributes);
  printf("threads with tiny stacks\n");
}

// pthread_getattr_np allocates, reads /proc/self/maps and takes a lock of libc's.
static void* AsksForItself(void* unused) {
  for (int i = 0; i < 5; ++i) {
    pthread_attr_t attributes;
    if (pthread_getattr_np(pthread_self(), &attributes)) return (void*)1;
    pthread_attr_destroy(&attributes);
    Work();
  }
  return unused;
}

static void StackBounds(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, AsksForItself, NULL);
  int good = 0;
  for (int i = 0; i < 4; ++i) {
    void* result;
    pthread_join(threads[i], &result);
    good += result == NULL;
  }
  AsksForItself(NULL);
  printf("%d threads knew their stacks\n", good);
}

// The frame pointer holds anything; a return address on the stack leads nowhere.
__attribute__((noinline)) static void* WithFramePointer(uintptr_t value, void* (*allocate)(size_t)) {
#if defined(__aarch64__)
  register void* result __asm__("x0") = (void*)77;
  register void* (*called)(size_t) __asm__("x9") = allocate;
  register uintptr_t frame __asm__("x10") = value;
  __asm__ volatile("stp x29, x30, [sp, #-16]!\n mov x29, x10\n blr x9\n ldp x29, x30, [sp], #16\n"
                   : "+r"(result), "+r"(called), "+r"(frame)
                   :
                   : "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x11", "x12", "x13", "x14", "x15", "x16", "x17",
                     "x30", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v16", "v17", "v18", "v19", "v20", "v21",
                     "v22", "v23", "v24", "v25", "v26", "v27", "v28", "v29", "v30", "v31", "memory", "cc");
#else
  void* result;
  __asm__ volatile(
      "push %%rbp\n push %%rbx\n push %%r12\n mov %%rsp, %%r12\n and $-16, %%rsp\n mov %1, %%rbp\n"
      "mov $77, %%edi\n call *%2\n mov %%r12, %%rsp\n pop %%r12\n pop %%rbx\n pop %%rbp\n"
      : "=a"(result)
      : "D"(value), "S"(allocate)
      : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory", "cc");
#endif
  return result;
}

static void CorruptFrames(void) {
  const uintptr_t values[] = {
      0, 1, 8, 4096, 0x7fffffffe000, 0x800000000000, ~0ul, 0xdeadbeefdeadbeef, (uintptr_t)values, 0xffffffffff600000};
  for (size_t i = 0; i < sizeof values / sizeof *values; ++i) {
    for (int k = 0; k < 20; ++k) free(WithFramePointer(values[i], on_some_stack));
  }
  printf("corrupt frame pointers\n");
}

// A coroutine's stack that touches a thread's, with no guard page between; then part of it may not be touched any more.
static char* below_thread;
enum { kBelow = 32 << 10, kForbidden = 16 << 10 };

static void DeepInCoroutine(void) {
  volatile char deep[24 << 10];
  deep[0] = deep[sizeof deep - 1] = 1;
  free(on_some_stack(100));
}
// Code without unwind tables; its frame pointer leads to the forbidden page.
static void* (*compiled)(void* frame, void* (*allocate)(size_t), size_t bytes);
static void BelowForbidden(void) {
  for (int i = 0; i < 50; ++i) free(compiled(below_thread + kForbidden + 64, on_some_stack, 100));
}

static void RunBelow(void (*run)(void), size_t bytes) {
  ucontext_t coroutine, back;
  getcontext(&coroutine);
  coroutine.uc_stack.ss_sp = below_thread;
  coroutine.uc_stack.ss_size = bytes;
  coroutine.uc_link = &back;
  makecontext(&coroutine, run, 0);
  swapcontext(&back, &coroutine);
}

static void* AboveCoroutine(void* unused) {
  for (int i = 0; i < 50; ++i) RunBelow(DeepInCoroutine, kBelow);
  mprotect(below_thread + kForbidden, 4096, PROT_NONE);
  for (int i = 0; i < 50; ++i) RunBelow(BelowForbidden, kForbidden);
  Work();
  return unused;
}

static void AdjacentStacks(void) {
  // push %rbp; mov %rdi,%rbp; mov %rdx,%rdi; call *%rsi; pop %rbp; ret
  static const unsigned char code[] = {0x55, 0x48, 0x89, 0xfd, 0x48, 0x89, 0xd7, 0xff, 0xd6, 0x5d, 0xc3};
  void* page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(page, code, sizeof code);
  compiled = (void* (*)(void*, void* (*)(size_t), size_t))page;
  const size_t own = 32 << 10;
  below_thread = mmap(NULL, kBelow + own, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstack(&attributes, below_thread + kBelow, own);
  pthread_t thread;
  pthread_create(&thread, &attributes, AboveCoroutine, NULL);
  pthread_join(thread, NULL);
  printf("stacks that touch\n");
}

// ---- handlers ----

static volatile sig_atomic_t handled;
static void Allocates(int signal) {
  (void)signal;
  ++handled;
}

static void OnAlternateStack(int signal) {
  (void)signal;
  Work();
  ++handled;
}

static void AlternateStack(void) {
  static char stack[64 << 10];
  const stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
  sigaltstack(&alternate, NULL);
  struct sigaction action = {.sa_handler = OnAlternateStack, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < 50; ++i) raise(SIGUSR1);
  printf("%d handlers on an alternate stack\n", (int)handled);
}

// Stacks that are hardly enough for a signal frame and malloc, each above a page that may not be touched.
static void SmallStacks(void) {
  char* low = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  mprotect(low, 4096, PROT_NONE);
  const stack_t alternate = {.ss_sp = low + 4096, .ss_size = 8192};
  sigaltstack(&alternate, NULL);
  struct sigaction action = {.sa_handler = OnAlternateStack, .sa_flags = SA_ONSTACK};
  sigaction(SIGUSR1, &action, NULL);
  for (int i = 0; i < 50; ++i) raise(SIGUSR1);
  int coroutines = 0;
  for (size_t bytes = 4096; bytes <= 16384; bytes += 2048, ++coroutines) {
    low = mmap(NULL, 4096 + bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(low, 4096, PROT_NONE);
    getcontext(&contexts[0]);
    contexts[0].uc_stack.ss_sp = low + 4096;
    contexts[0].uc_stack.ss_size = bytes;
    contexts[0].uc_link = &main_context;
    makecontext(&contexts[0], Work, 0);
    swapcontext(&main_context, &contexts[0]);
  }
  printf("%d handlers, %d coroutines\n", (int)handled, coroutines);
}

// Every system call and every instruction of ours may be interrupted; errno and results stay.
static void SignalStorm(void) {
  struct sigaction action = {.sa_handler = Allocates, .sa_flags = SA_RESTART};
  sigaction(SIGALRM, &action, NULL);
  const struct itimerval often = {{0, 50}, {0, 50}}, never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &often, NULL);
  int wrong = 0;
  for (int i = 0; i < 3000; ++i) {
    errno = 4711;
    void* p = on_some_stack((size_t)(i % 700) * 50);
    free(p);
    wrong += errno != 4711;
  }
  setitimer(ITIMER_REAL, &never, NULL);
  printf("errno was wrong %d times\n", wrong);
}

// Jumps out of whatever it interrupted, as some shells do: here a wait for the first sample, or the capture of a later
// one. The blocks are taken before, and the real allocator is not interrupted: it could not stand that either.
static sigjmp_buf jump;
static void JumpsOut(int signal) {
  (void)signal;
  siglongjmp(jump, 1);
}

static void JumpOut(void) {
  struct sigaction action = {.sa_handler = JumpsOut, .sa_flags = SA_NODEFER};
  sigaction(SIGALRM, &action, NULL);
  volatile int jumps = 0;
  for (volatile int i = 0; i < 200; ++i) {
    const struct itimerval once = {{0, 0}, {0, 20 + i * 5}};
    if (sigsetjmp(jump, 1) == 0) {
      setitimer(ITIMER_REAL, &once, NULL);
      // A lock that is taken: the wait is sampled, and the jump leaves it.
      static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
      static int taken;
      if (!taken) pthread_mutex_lock(&mutex), taken = 1;
      pthread_mutex_lock(&mutex);
    } else {
      ++jumps;
    }
  }
  Work();
  printf("jumped %d times\n", jumps);
  Expect("on_some_stack", 100, 14950, 0, 0);
}

// ---- cancellation ----

static void Cleanup(void* block) { free(block); }

static void* IsCancelled(void* unused) {
  (void)unused;
  void* block = on_some_stack(100);
  pthread_cleanup_push(Cleanup, block);
  while (1) {
    Work();
    pthread_testcancel();
  }
  pthread_cleanup_pop(1);
  return NULL;
}

static void Cancellation(void) {
  int cancelled = 0;
  for (int i = 0; i < 50; ++i) {
    pthread_t thread;
    pthread_create(&thread, NULL, IsCancelled, NULL);
    usleep((useconds_t)(i * 20));
    pthread_cancel(thread);
    void* result;
    pthread_join(thread, &result);
    cancelled += result == PTHREAD_CANCELED;
  }
  printf("%d threads were cancelled\n", cancelled);
}

// ---- memory that goes away with the lock in it ----

struct Shared {
  pthread_mutex_t mutex;
  int references;
};

static void Drop(struct Shared* shared) {
  pthread_mutex_lock(&shared->mutex);
  Work();
  const int left = --shared->references;
  pthread_mutex_unlock(&shared->mutex);
  if (left == 0) {
    pthread_mutex_destroy(&shared->mutex);
    munmap(shared, 4096);
  }
}

static void* Drops(void* shared) {
  Drop(shared);
  return NULL;
}

static void GoneAfterUnlock(void) {
  for (int i = 0; i < 200; ++i) {
    struct Shared* shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_mutex_init(&shared->mutex, NULL);
    shared->references = 3;
    pthread_t threads[2];
    for (int k = 0; k < 2; ++k) pthread_create(&threads[k], NULL, Drops, shared);
    Drop(shared);
    for (int k = 0; k < 2; ++k) pthread_join(threads[k], NULL);
  }
  printf("200 locks went away\n");
}

int main(int argc, char** argv) {
  const char* which = argc > 1 ? argv[1] : "";
  setvbuf(stdout, NULL, _IONBF, 0);
  static const struct {
    const char* name;
    void (*run)(void);
  } cases[] = {{"coroutines", Coroutines},          {"unmapped_stacks", UnmappedStacks},
               {"tiny_threads", TinyThreads},       {"stack_bounds", StackBounds},
               {"corrupt_frames", CorruptFrames},   {"adjacent_stacks", AdjacentStacks},
               {"alternate_stack", AlternateStack}, {"small_stacks", SmallStacks},
               {"signal_storm", SignalStorm},       {"jump_out", JumpOut},
               {"cancellation", Cancellation},      {"gone_after_unlock", GoneAfterUnlock}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    if (!strcmp(which, cases[i].name)) return cases[i].run(), 0;
  }
  return 99;
}
