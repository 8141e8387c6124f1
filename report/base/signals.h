// What a parent owes a child that it stands in for: signals, job control, and the same end. For `holdfast run`.
//
//     HeldSignals held;                 // before fork
//     if (fork() == 0) { held.Release(); execve(…); }
//     EndLike(held.Supervise(child));
//
// No handler is installed: signals are held back (blocked) and taken one by one, so the child inherits every
// disposition as we got it. One thread only.
#ifndef HOLDFAST_REPORT_BASE_SIGNALS_H_
#define HOLDFAST_REPORT_BASE_SIGNALS_H_

#include <signal.h>
#include <sys/types.h>

#include <functional>

namespace holdfast {

class HeldSignals {
 public:
  HeldSignals();
  // The mask that we got: for the child, before exec.
  void Release() const;

  // Until `child` has ended; its status, as from waitpid. Meanwhile:
  //   TERM, INT, HUP, QUIT, USR1, USR2, CONT, TSTP   sent to us by a process: passed on. From the terminal: the child,
  //   in
  //                                                  our process group, has it already
  //   the child stops (^Z, or a TSTP passed on)      we stop by the same signal, so that the shell sees it. Without a
  //                                                  terminal a program stopped by others does not stop us: who
  //                                                  continues it would not continue us
  // Other children (orphans, when we are PID 1) are reaped.
  // `look`: is called a few times while the child runs, early ones closer together.
  int Supervise(pid_t child, const std::function<void()>& look = {});

  // Waits `milliseconds`, or until one of TERM, INT, HUP, QUIT came: then true.
  bool AskedToEnd(int milliseconds);

 private:
  void Forward(const siginfo_t& info);
  void TakeStates();
  void StopLike(int signal);

  sigset_t held_, before_;
  pid_t child_ = 0;
  int status_ = 0;
  bool ended_ = false;
  bool stopped_ = false;  // the child
  bool stop_forwarded_ = false;
  bool resumed_ = false;  // we were stopped, and the CONT that woke us is still to be taken
};

// Ends this process with the exit status, or by the signal, that `status` (from waitpid) says; without a core of ours.
[[noreturn]] void EndLike(int status);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_SIGNALS_H_
