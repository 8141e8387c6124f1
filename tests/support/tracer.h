// Traces another process, which may be anybody's child. For tests only; one thread.
#ifndef HOLDFAST_TESTS_SUPPORT_TRACER_H_
#define HOLDFAST_TESTS_SUPPORT_TRACER_H_

#include <sys/ptrace.h>
#include <sys/syscall.h>
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
      user_regs_struct registers;
      ptrace(PTRACE_GETREGS, pid_, nullptr, &registers);
      const auto call = static_cast<long>(registers.orig_rax);
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
    constexpr long kSyscall = 0x050f;  // the instruction
    Steps steps;
    int status = 0;
    if (!RunToSignal(signal)) return steps;
    ptrace(PTRACE_SINGLESTEP, pid_, nullptr, signal);
    while (waitpid(pid_, &status, __WALL) == pid_ && WIFSTOPPED(status)) {
      user_regs_struct registers;
      ptrace(PTRACE_GETREGS, pid_, nullptr, &registers);
      const bool is_call = (ptrace(PTRACE_PEEKTEXT, pid_, registers.rip, nullptr) & 0xffff) == kSyscall;
      ++steps.instructions;
      steps.calls += is_call;
      if (is_call && registers.rax == SYS_rt_sigreturn) break;
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
