// Breaks into a piece of code after its first instruction, after its second, and so on, one run for each: with what another
// thread may do just then, or with a jump out of it. The trap flag makes the processor stop after each instruction, which
// takes some 10 µs.
//
//     for (SingleSteps steps;; steps.Next()) {
//       …prepare…
//       if (sigsetjmp(steps.out, 1) == 0) steps.Run([&] { work }, [&] { siglongjmp(steps.out, 1); });
//       if (steps.WorkIsOver()) break;  // before it came to break in
//       …expectations…
//     }
//
// While the work blocks signals nothing is done: a handler would have to wait. One at a time, in one thread.
#ifndef HOLDFAST_TESTS_UNIT_SINGLE_STEPS_H_
#define HOLDFAST_TESTS_UNIT_SINGLE_STEPS_H_

#include <gtest/gtest.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <functional>

// At the beginning of a test that needs them.
#if defined(__x86_64__)
#define HOLDFAST_NEEDS_SINGLE_STEPS()
#else
#define HOLDFAST_NEEDS_SINGLE_STEPS() GTEST_SKIP() << "only x86-64 has a trap flag"
#endif

namespace holdfast {

class SingleSteps {
 public:
  // `stride`: only after each so manyth.
  explicit SingleSteps(int stride = 1) : stride_(stride) {
    Next();
    struct sigaction action = {};
    action.sa_sigaction = OnTrap;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGTRAP, &action, &former_);
    current_ = this;
  }
  ~SingleSteps() { sigaction(SIGTRAP, &former_, nullptr); }

  void Next() { left_ = step_ += stride_; }
  bool WorkIsOver() const { return left_ > 0; }
  int step() const { return step_; }

  template <typename Work>
  void Run(Work work, std::function<void()> break_in) {
    break_in_ = std::move(break_in);
#if defined(__x86_64__)
    asm volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
    work();
    asm volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" : : : "memory", "cc");
#endif
  }

  sigjmp_buf out;

 private:
  static void OnTrap(int, siginfo_t*, void* context) {
#if defined(__x86_64__)
    auto* at = static_cast<ucontext_t*>(context);
    auto& registers = at->uc_mcontext.gregs;
    // A trap that is blocked would be the end of the process.
    uint16_t next;
    std::memcpy(&next, reinterpret_cast<const void*>(registers[REG_RIP]), sizeof next);
    if (next == 0x050f /*syscall*/ && registers[REG_RAX] == SYS_rt_sigprocmask && registers[REG_RSI] != 0) {
      *reinterpret_cast<uint64_t*>(registers[REG_RSI]) &= ~(uint64_t{1} << (SIGTRAP - 1));
    }
    if (current_->left_ == 0 || sigismember(&at->uc_sigmask, SIGUSR1) == 1 || --current_->left_ != 0) return;
    registers[REG_EFL] &= ~0x100L;
    current_->break_in_();
#endif
  }

  inline static SingleSteps* current_;
  std::function<void()> break_in_;
  const int stride_;
  int step_ = 0;
  int left_ = 0;
  struct sigaction former_ = {};
};

}  // namespace holdfast

#endif  // HOLDFAST_TESTS_UNIT_SINGLE_STEPS_H_
