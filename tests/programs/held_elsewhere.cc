// Holds 100 blocks in a place where a search for pointers easily misses them, then prints "ready" and waits for the end of its
// input. The argument chooses the place:
//
//   vector       one block in a vector register of a thread that runs
//   ended_main   the main thread has ended by pthread_exit
//   coroutine    on the stack of a sleeping coroutine, below the stack of the running one, both in main's frame
//   read_only    in a page of a file that was written and then made read-only
//   code         in a memfd that is mapped only for execution now, at odd addresses
//   epoll        only in the data of watched descriptors, which the kernel keeps
//   timer        only in the values of timers, which the kernel keeps
//   quoted       nowhere: lost by a function with quotes in its name
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <string>

namespace {

constexpr int kBlocks = 100, kPage = 4096;

void ready_until_the_input_ends() {
  puts("ready");
  fflush(stdout);
  char byte;
  while (read(0, &byte, 1) > 0) {
  }
  _exit(0);
}

// Overwrites what the calls before have left on the stack.
__attribute__((noinline)) void clear_stack() {
  volatile char bytes[16 << 10];
  for (volatile char& byte : bytes) byte = 0;
}

#if defined(__x86_64__)
// Its stack is aligned, because it is no leaf.
void* hold_in_vector(void*) {
  clear_stack();
  asm volatile(
      "mov $100, %%edi\n call malloc@PLT\n movq %%rax, %%xmm15\n"
      "xor %%eax, %%eax\n xor %%ebx, %%ebx\n xor %%ecx, %%ecx\n xor %%edx, %%edx\n xor %%esi, %%esi\n xor %%edi, %%edi\n"
      "xor %%r8d, %%r8d\n xor %%r9d, %%r9d\n xor %%r10d, %%r10d\n xor %%r11d, %%r11d\n xor %%r12d, %%r12d\n"
      "xor %%r13d, %%r13d\n xor %%r14d, %%r14d\n xor %%r15d, %%r15d\n 1: pause\n jmp 1b" ::
          : "memory", "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
            "xmm15");
  return nullptr;
}
#endif

void** kept_by_main;
void* outlive_main(void* main_thread) {
  pthread_join(*static_cast<pthread_t*>(main_thread), nullptr);
  ready_until_the_input_ends();
  return nullptr;
}

ucontext_t in_main, in_coroutine;
void hold_in_coroutine() {
  void* volatile kept[kBlocks];
  for (void* volatile& block : kept) block = malloc(100);
  swapcontext(&in_coroutine, &in_main);
  free(kept[0]);
}
void wait_in_coroutine() {
  clear_stack();
  ready_until_the_input_ends();
}
void coroutines() {
  static ucontext_t second;
  alignas(16) char stacks[2][64 << 10];
  getcontext(&in_coroutine);
  in_coroutine.uc_stack = {stacks[0], 0, sizeof stacks[0]};
  in_coroutine.uc_link = nullptr;
  makecontext(&in_coroutine, hold_in_coroutine, 0);
  swapcontext(&in_main, &in_coroutine);
  getcontext(&second);
  second.uc_stack = {stacks[1], 0, sizeof stacks[1]};
  second.uc_link = nullptr;
  makecontext(&second, wait_in_coroutine, 0);
  swapcontext(&in_main, &second);
}

__attribute__((noinline)) void hold_in_read_only_page() {
  const int file = open("/proc/self/exe", O_RDONLY);
  void** page = static_cast<void**>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
  for (int i = 0; i < kBlocks; ++i) page[i] = malloc(100);
  mprotect(page, kPage, PROT_READ);
}

__attribute__((noinline)) void hold_in_code() {
  const int memory = memfd_create("code", 0);
  ftruncate(memory, kPage);
  char* page = static_cast<char*>(mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0));
  for (int i = 0; i < kBlocks; ++i) {
    void* block = malloc(100);
    memcpy(page + 10 * i + 3, &block, sizeof block);
  }
  munmap(page, kPage);
  page = static_cast<char*>(mmap(nullptr, kPage, PROT_READ | PROT_EXEC, MAP_SHARED, memory, 0));
  static_cast<void>(*static_cast<volatile char*>(page));  // as if it ran
}

__attribute__((noinline)) void hold_in_epoll() {
  const int watched = epoll_create1(0);
  for (int i = 0; i < kBlocks; ++i) {
    epoll_event event = {};
    event.events = EPOLLIN;
    event.data.ptr = static_cast<char*>(malloc(100)) + (i % 2 == 0 ? 0 : 50);
    epoll_ctl(watched, EPOLL_CTL_ADD, dup(0), &event);
  }
}
__attribute__((noinline)) void hold_in_timers() {
  // Kept, because in glibc before 2.34 a timer is a block.
  static timer_t timers[kBlocks];
  for (int i = 0; i < kBlocks; ++i) {
    sigevent notice = {};
    notice.sigev_notify = SIGEV_SIGNAL;
    notice.sigev_signo = SIGRTMIN;
    notice.sigev_value.sival_ptr = malloc(100);
    timer_create(CLOCK_MONOTONIC, &notice, &timers[i]);
  }
}

__attribute__((noinline)) void* operator""_lost(unsigned long long bytes) { return malloc(bytes); }
__attribute__((noinline)) void lose() {
  for (int i = 0; i < kBlocks; ++i) memset(100_lost, 1, 100);
}

}  // namespace

int main(int, char** argv) {
  const std::string what = argv[1];
  pthread_t thread;
  if (what == "ended_main") {
    static pthread_t main_thread = pthread_self();
    kept_by_main = static_cast<void**>(malloc(kBlocks * sizeof(void*)));
    for (int i = 0; i < kBlocks; ++i) kept_by_main[i] = malloc(100);
    pthread_create(&thread, nullptr, outlive_main, &main_thread);
    pthread_exit(nullptr);
  }
#if defined(__x86_64__)
  if (what == "vector") pthread_create(&thread, nullptr, hold_in_vector, nullptr);
#endif
  if (what == "coroutine") coroutines();
  if (what == "read_only") hold_in_read_only_page();
  if (what == "code") hold_in_code();
  if (what == "epoll") hold_in_epoll();
  if (what == "timer") hold_in_timers();
  if (what == "quoted") lose();
  clear_stack();
  ready_until_the_input_ends();
}
