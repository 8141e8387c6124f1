#include "report/base/signals.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>

#include "report/base/file_descriptor.h"

namespace holdfast {
namespace {

constexpr int kForwarded[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP};
// After SIGCONT resumes us: how long the child's own SIGCHLD may take if it was resumed by the same signal. A guess:
// the kernel resumes both in one step.
constexpr int kContinuedWithinMs = 50;
// When Supervise calls `look`: first after 50 ms, then after four times the previous delay, up to about 50 s.
constexpr int kFirstLookMs = 50, kLastLookMs = 60'000;
constexpr int kWorkEveryMs = 100;

bool HasTerminal() { return FileDescriptor(open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC)).valid(); }

timespec Milliseconds(int milliseconds) { return {milliseconds / 1000, milliseconds % 1000 * 1'000'000L}; }

}  // namespace

HeldSignals::HeldSignals() {
  sigemptyset(&held_);
  sigaddset(&held_, SIGCHLD);
  for (const int signal : kForwarded) sigaddset(&held_, signal);
  sigprocmask(SIG_BLOCK, &held_, &before_);
}

void HeldSignals::Release() const { sigprocmask(SIG_SETMASK, &before_, nullptr); }

void HeldSignals::Forward(const siginfo_t& info, const WorkMeanwhile& work) {
  if (info.si_code == SI_KERNEL) return;  // sent by the terminal: the child is in the same process group and has it too
  if (info.si_pid == child_) return;      // sent by the child to us or its group: the child knows about it
  if (info.si_signo == SIGCONT && resumed_) {
    // This SIGCONT was probably sent to the whole group, and a second one would reach the child's handler.
    resumed_ = false;
    sigset_t state;
    sigemptyset(&state);
    sigaddset(&state, SIGCHLD);
    const timespec pause = Milliseconds(kContinuedWithinMs);
    do {
      TakeStates();
    } while (stopped_ && sigtimedwait(&state, nullptr, &pause) == SIGCHLD);
    if (stopped_) kill(child_, SIGCONT);
    return;
  }
  if (info.si_signo == SIGTSTP) stop_forwarded_ = true;
  if (info.si_signo == SIGTERM && work.before_term) work.before_term();
  if (info.si_code == SI_QUEUE) {
    sigqueue(child_, info.si_signo, info.si_value);
  } else {
    kill(child_, info.si_signo);
  }
}

void HeldSignals::TakeStates() {
  int status;
  while (true) {
    const pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
    if (pid <= 0) return;
    if (pid != child_) continue;
    if (WIFSTOPPED(status)) {
      stopped_ = true;
      const int signal = WSTOPSIG(status);
      if (stop_forwarded_ || HasTerminal()) StopLike(signal);
      stop_forwarded_ = false;
    } else if (WIFCONTINUED(status)) {
      stopped_ = false;
    } else {
      status_ = status;
      ended_ = true;
    }
  }
}

void HeldSignals::StopLike(int signal) {
  resumed_ = true;
  struct sigaction usual = {}, before;
  usual.sa_handler = SIG_DFL;
  if (signal != SIGSTOP) sigaction(signal, &usual, &before);
  kill(getpid(), signal);
  sigset_t one, held;
  sigemptyset(&one);
  sigaddset(&one, signal);
  sigprocmask(SIG_UNBLOCK, &one, &held);  // we stop here until we are continued
  sigprocmask(SIG_SETMASK, &held, nullptr);
  if (signal != SIGSTOP) sigaction(signal, &before, nullptr);
}

int HeldSignals::TakeSignal(siginfo_t* info, int wait_ms, const WorkMeanwhile& work) const {
  if (!work.work) {
    const timespec pause = Milliseconds(wait_ms);
    return wait_ms >= 0 ? sigtimedwait(&held_, info, &pause) : sigwaitinfo(&held_, info);
  }
  const FileDescriptor signals(signalfd(-1, &held_, SFD_CLOEXEC));
  const timespec none = {0, 0};
  while (true) {
    pollfd entries[] = {{signals.get(), POLLIN, 0}, {work.descriptor, POLLIN, 0}};
    const int step_ms = wait_ms < 0 ? kWorkEveryMs : std::min(wait_ms, kWorkEveryMs);
    poll(entries, 2, step_ms);
    work.work();
    if (const int number = sigtimedwait(&held_, info, &none); number > 0 || errno != EAGAIN) return number;
    if (wait_ms < 0) continue;
    wait_ms -= step_ms;
    if (wait_ms <= 0) {
      errno = EAGAIN;
      return -1;
    }
  }
}

int HeldSignals::Supervise(pid_t child, const std::function<void()>& look, const WorkMeanwhile& work) {
  child_ = child;
  // If SIGCHLD were ignored, the kernel would reap the child and discard its status.
  signal(SIGCHLD, SIG_DFL);
  TakeStates();
  int wait_ms = kFirstLookMs;
  while (!ended_) {
    siginfo_t info;
    const int number = TakeSignal(&info, look && wait_ms <= kLastLookMs ? wait_ms : -1, work);
    if (number < 0 && errno == EAGAIN) {
      look();
      wait_ms *= 4;
    } else if (number == SIGCHLD) {
      TakeStates();
    } else if (number > 0) {
      Forward(info, work);
    }
  }
  return status_;
}

bool HeldSignals::AskedToEnd(int milliseconds) {
  sigset_t ending;
  sigemptyset(&ending);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT}) sigaddset(&ending, signal);
  const timespec pause = Milliseconds(milliseconds);
  return sigtimedwait(&ending, nullptr, &pause) > 0;
}

void EndLike(int status) {
  if (!WIFSIGNALED(status)) _exit(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  // Our own core dump would say nothing about the program, and could overwrite the program's core dump.
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);  // core_pattern may pipe cores to a program, which ignores the limit
  signal(number, SIG_DFL);
  kill(getpid(), number);
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, number);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
  _exit(128 + number);  // we are PID 1, and the kernel did not deliver the signal
}

}  // namespace holdfast
