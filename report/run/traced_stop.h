// Begins to trace a thread, and awaits its next stop.
#ifndef HOLDFAST_REPORT_RUN_TRACED_STOP_H_
#define HOLDFAST_REPORT_RUN_TRACED_STOP_H_

#include <errno.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/wait.h>

#include <string>

#include "absl/status/status.h"
#include "report/observe/outside/frozen_group.h"

namespace holdfast {

// Of the kernel's <linux/ptrace.h>, which cannot be included beside <sys/ptrace.h> everywhere.
inline constexpr int kStopEvent = 128;

// As waitpid(thread, status, __WALL | options), but a signal that is about to reach the thread stays there: if this process
// is killed before it passes the signal on, the thread still gets it. To wait takes it away otherwise. Linux before 4.7 knows
// only waitpid.
inline pid_t AwaitTraced(pid_t thread, int* status, int options) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(thread), &info, __WALL | WEXITED | WSTOPPED | WNOWAIT | options) != 0)
    return errno == EINVAL ? waitpid(thread, status, __WALL | options) : -1;
  if (info.si_pid == 0) return 0;
  constexpr int kSignals = 64, kSystemCall = 0x80;
  const bool is_signal = info.si_code == CLD_TRAPPED && info.si_status > 0 && info.si_status <= kSignals &&
                         (info.si_status & kSystemCall) == 0;
  if (!is_signal) return waitpid(thread, status, __WALL | options);
  *status = info.si_status << 8 | 0x7f;
  return thread;
}

// Why a thread of `pid` cannot be seized: `failed`, or its program has been frozen. A thread that could not be let go because
// of that is still traced by this process.
inline absl::Status SeizeFailed(pid_t pid, absl::Status failed) {
  const std::string frozen = WhyFrozen(pid);
  return frozen.empty() ? failed : absl::UnavailableError(frozen);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_TRACED_STOP_H_
