// A program with known sums for scripts/arm64, for both processors: 1,000 blocks of 1,000 bytes below Outer, 300 of 200 by new, 100 exceptions, a
// block of 13,000 in a signal handler that interrupts a function without a frame, one of 5,000 in a child, one of 7,000 in an
// inlined function, one of 9,000 by a tail call, and one of 11,000 from another allocator (own_names.cc).
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <stdexcept>

extern "C" void* mi_malloc(size_t bytes);

namespace {

void* kept[2000];
int count = 0;
volatile int thrown = 0;
int* volatile nowhere = nullptr;

__attribute__((noinline)) void Keep(void* block) { kept[count++] = block; }
__attribute__((noinline)) void Inner() { Keep(malloc(1000)); }
__attribute__((noinline)) void Outer() {
  for (int i = 0; i < 1000; ++i) Inner();
}
__attribute__((noinline)) void ByNew() {
  for (int i = 0; i < 300; ++i) Keep(new char[200]);
}
__attribute__((noinline)) void Throw() { throw std::runtime_error("known"); }
__attribute__((noinline)) void Catch() {
  for (int i = 0; i < 100; ++i) {
    try {
      Throw();
    } catch (const std::exception&) {
      thrown = thrown + 1;
    }
  }
}
__attribute__((always_inline)) inline void* Inlined() {
  return malloc(7000);  // scripts/arm64 looks for this line
}
__attribute__((noinline)) void HasInlined() { Keep(Inlined()); }
__attribute__((noinline)) void* LeavesByJump(size_t size) { return malloc(size); }
__attribute__((noinline)) void CallsOneThatLeaves() { Keep(LeavesByJump(9000)); }
__attribute__((noinline)) void FromAnother() { Keep(mi_malloc(11000)); }
void OnFault(int, siginfo_t*, void* context) {
  Keep(malloc(13000));
  mcontext_t& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
  machine.gregs[REG_RIP] += 2;  // mov (%rdi), %eax
#else
  machine.pc += 4;
#endif
}
__attribute__((noinline)) int Fault(volatile int* at) { return *at; }

}  // namespace

int main() {
  struct sigaction action {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGSEGV, &action, nullptr);
  Outer();
  ByNew();
  Catch();
  HasInlined();
  CallsOneThatLeaves();
  FromAnother();
  Fault(nowhere);
  const pid_t child = fork();
  if (child == 0) {
    Keep(malloc(5000));
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  return thrown == 100 ? 0 : 1;
}
