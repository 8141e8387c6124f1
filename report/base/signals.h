// Lets `holdfast run` behave like its child: forwards signals, follows job control, and ends the same way.
//
//     HeldSignals held;                 // before fork
//     if (fork() == 0) { held.Release(); execve(…); }
//     EndLike(held.Supervise(child));
//
// Installs no handlers: signals are blocked and taken one by one, so the child inherits every disposition unchanged.
// One thread only.
#ifndef HOLDFAST_REPORT_BASE_SIGNALS_H_
#define HOLDFAST_REPORT_BASE_SIGNALS_H_

#include <signal.h>
#include <sys/types.h>

#include <functional>

namespace holdfast {

// Work for others while the child runs.
struct WorkMeanwhile {
  int descriptor = -1;                     // if it is readable, there is work
  std::function<void()> work = {};         // also called ten times a second; empty: none
  std::function<void()> before_term = {};  // called before SIGTERM is forwarded
};

class HeldSignals {
 public:
  HeldSignals();
  // Restores the original signal mask. The child calls this before exec.
  void Release() const;

  // Waits until `child` has ended and returns its status, as waitpid does. Meanwhile:
  //   TERM, INT, HUP, QUIT, USR1, USR2, CONT, TSTP   forwarded if a process sent them to us. If the terminal sent them, the
  //                                                  child already has them: it is in our process group
  //   the child stops (^Z, or a forwarded TSTP)      we stop by the same signal, so that the shell notices. Without a
  //                                                  terminal we keep running: a process that stopped only the child
  //                                                  will continue only the child
  // Reaps other children (orphans, if we are PID 1).
  // `look` is called a few times while the child runs, at growing intervals.
  int Supervise(pid_t child, const std::function<void()>& look = {}, const WorkMeanwhile& work = {});

  // Waits up to `milliseconds`. Returns true as soon as TERM, INT, HUP or QUIT arrives.
  bool AskedToEnd(int milliseconds);

 private:
  void Forward(const siginfo_t& info, const WorkMeanwhile& work);
  // Waits for a signal and takes it, as sigtimedwait does.
  int TakeSignal(siginfo_t* info, int wait_ms, const WorkMeanwhile& work) const;
  void TakeStates();
  void StopLike(int signal);

  sigset_t held_, before_;
  pid_t child_ = 0;
  int status_ = 0;
  bool ended_ = false;
  bool stopped_ = false;  // the child is stopped
  bool stop_forwarded_ = false;
  bool resumed_ = false;  // we were stopped, and the CONT that resumed us is still pending
};

// Ends this process with the exit code or signal of `status` (from waitpid), without a core dump.
[[noreturn]] void EndLike(int status);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_SIGNALS_H_
