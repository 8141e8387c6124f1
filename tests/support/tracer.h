// Traces another process, which may be anybody's child. For tests only; one thread.
#ifndef HOLDFAST_TESTS_SUPPORT_TRACER_H_
#define HOLDFAST_TESTS_SUPPORT_TRACER_H_

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include <algorithm>
#include <functional>
#include <vector>

namespace holdfast::testing {

class Tracer {
 public:
  // Stops the process. Not attached where the system forbids to trace it (kernel.yama.ptrace_scope).
  explicit Tracer(pid_t pid) : pid_(pid) {
    attached_ = ptrace(PTRACE_SEIZE, pid, nullptr, PTRACE_O_TRACESYSGOOD) == 0 &&
                ptrace(PTRACE_INTERRUPT, pid, nullptr, nullptr) == 0;
    if (attached_) waitpid(pid, nullptr, __WALL);
  }
  bool attached() const { return attached_; }
  // Lets the process go on until it makes one of these system calls, or returns from it, or `is_over`, which is asked at each
  // call. Returns the call's number; −1: over.
  long RunTo(const std::vector<long>& calls, const std::function<bool()>& is_over) const {
    while (!is_over() && GoOn(PTRACE_SYSCALL)) {
      const long call = Registers().call;
      if (std::count(calls.begin(), calls.end(), call) != 0) return call;
    }
    return -1;
  }
  // Lets the thread go on until this signal is about to be delivered; others that come before it are lost. False: it has ended.
  bool RunToSignal(int signal) const {
    int status = 0;
    do {
      ptrace(PTRACE_CONT, pid_, nullptr, nullptr);
      if (waitpid(pid_, &status, __WALL) != pid_ || !WIFSTOPPED(status)) return false;
    } while (WSTOPSIG(status) != signal);
    return true;
  }
  // Lets the thread go on into its handler of this signal, up to the handler's first system call.
  bool RunIntoHandler(int signal) const {
    int status = 0;
    if (!RunToSignal(signal)) return false;
    ptrace(PTRACE_SYSCALL, pid_, nullptr, signal);
    return waitpid(pid_, &status, __WALL) == pid_ && WIFSTOPPED(status);
  }
  struct Steps {
    long instructions = 0, calls = 0;
  };
  // Lets the thread go on through its handler of this signal. Returns the handler's instructions and system calls, its return
  // included.
  Steps StepThroughHandler(int signal) const {
    Steps steps;
    int status = 0;
    if (!RunToSignal(signal)) return steps;
    ptrace(PTRACE_SINGLESTEP, pid_, nullptr, signal);
    while (waitpid(pid_, &status, __WALL) == pid_ && WIFSTOPPED(status)) {
      const Selected registers = Registers();
      const bool is_call = (ptrace(PTRACE_PEEKTEXT, pid_, registers.pc, nullptr) & kCallBits) == kCallCode;
      ++steps.instructions;
      steps.calls += is_call;
      if (is_call && registers.next_call == SYS_rt_sigreturn) break;
      ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr);
    }
    return steps;
  }
  // Lets the process go on an instruction at a time until `is_over`: it works, and slowly.
  void StepUntil(const std::function<bool()>& is_over) const {
    while (!is_over() && GoOn(PTRACE_SINGLESTEP)) {
    }
  }
  void Leave(int signal) const { ptrace(PTRACE_DETACH, pid_, nullptr, signal); }

 private:
  struct Selected {
    unsigned long pc;
    long call;       // of the system call that it has stopped in
    long next_call;  // if its next instruction is a system call
  };
#if defined(__x86_64__)
  static constexpr long kCallBits = 0xffff, kCallCode = 0x050f;
#else
  static constexpr long kCallBits = 0xffffffff, kCallCode = 0xd4000001;
#endif
  Selected Registers() const {
    user_regs_struct registers{};
    iovec place = {&registers, sizeof registers};
    ptrace(PTRACE_GETREGSET, pid_, NT_PRSTATUS, &place);
#if defined(__x86_64__)
    return {registers.rip, static_cast<long>(registers.orig_rax), static_cast<long>(registers.rax)};
#else
    return {registers.pc, static_cast<long>(registers.regs[8]), static_cast<long>(registers.regs[8])};
#endif
  }
  // False: it has ended.
  bool GoOn(__ptrace_request how) const {
    int status = 0;
    ptrace(how, pid_, nullptr, nullptr);
    return waitpid(pid_, &status, __WALL) == pid_ && WIFSTOPPED(status);
  }

  const pid_t pid_;
  bool attached_ = false;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_TRACER_H_
