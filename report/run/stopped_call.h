// What a stop by ptrace does to the system call in which a thread waits. The kernel resumes most calls as if nothing had
// happened. It ends some: they return EINTR, or fewer bytes than they were asked for, as after SIGSTOP and SIGCONT.
//
//     write of 1 MiB to a pipe that has 64 KiB free      returns 65536 after a stop
//     write of 4 KiB to a full pipe                      continues: up to PIPE_BUF bytes are written at once
//     recv with MSG_WAITALL, half of it received         returns that half
//     epoll_wait                                         returns EINTR
#ifndef HOLDFAST_REPORT_RUN_STOPPED_CALL_H_
#define HOLDFAST_REPORT_RUN_STOPPED_CALL_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>

#include "report/observe/table/thread_status.h"

namespace holdfast {

// The cost to the program of stopping a thread, the least first.
enum class StopCost : uint8_t {
  kNothing,  // it runs, or its system call continues as it was
  kLonger,   // its system call continues with the time that is left, at best
  kReturns,  // its system call returns EINTR
  kShort,    // its system call may have moved some bytes, and returns only their number. Few programs expect that
  kImpossible
};
// What it costs to stop a thread that waits in this call.
StopCost CostOfStop(pid_t thread, const BlockedCall& call);

// Whether the call of a thread that was stopped returns EINTR or fewer bytes than the program asked for. `result`: what it
// returns now. A call that could not wait is not lost.
bool IsCallLost(pid_t thread, const BlockedCall& call, int64_t result);
#if defined(__x86_64__)
// The call of a thread with these registers; its number is below 0 if there is none.
BlockedCall CallIn(const user_regs_struct& registers);
// As IsCallLost, for a thread that this process traces.
bool IsCallOfStoppedLost(pid_t thread);
#endif

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_STOPPED_CALL_H_
