// Traces another process, which may be anybody's child. For tests only; one thread.
#ifndef HOLDFAST_TESTS_SUPPORT_TRACER_H_
#define HOLDFAST_TESTS_SUPPORT_TRACER_H_

#include <sys/ptrace.h>
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
  // Lets the process go on until it makes one of these system calls, or `is_over`, which is asked at each call.
  void RunTo(const std::vector<long>& calls, const std::function<bool()>& is_over) const {
    while (!is_over() && GoOn(PTRACE_SYSCALL)) {
      user_regs_struct registers;
      ptrace(PTRACE_GETREGS, pid_, nullptr, &registers);
      if (std::count(calls.begin(), calls.end(), static_cast<long>(registers.orig_rax)) != 0) return;
    }
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
