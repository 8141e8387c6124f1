#include "report/run/stopped_call.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "report/run/traced_memory.h"

namespace holdfast {
namespace {

// "pipe:[4242]", "socket:[4242]", "anon_inode:[eventfd]", "/dev/pts/3"; "": it cannot be read.
std::string FileBehind(pid_t thread, uint64_t descriptor) {
  char target[64];
  const ssize_t bytes = readlink(fmt::format("/proc/{}/fd/{}", thread, descriptor).c_str(), target, sizeof target);
  return bytes <= 0 ? "" : std::string(target, static_cast<size_t>(bytes));
}

StopCost CostOfRead(pid_t thread, uint64_t descriptor) {
  const std::string file = FileBehind(thread, descriptor);
  return file.empty() || file.starts_with("socket:") ? StopCost::kReturns : StopCost::kNothing;
}

StopCost CostOfWrite(pid_t thread, uint64_t descriptor, uint64_t bytes) {
  const std::string file = FileBehind(thread, descriptor);
  // An eventfd takes all 8 bytes or none.
  if (file.starts_with("anon_inode:")) return StopCost::kNothing;
  const uint64_t at_once = file.starts_with("pipe:") ? PIPE_BUF : 1;
  if (bytes > at_once) return StopCost::kShort;
  return file.empty() || file.starts_with("socket:") ? StopCost::kReturns : StopCost::kNothing;
}

bool Waits(pid_t thread, uint64_t descriptor) {
  constexpr std::string_view kFlags = "flags:\t";
  const std::string info = ReadOfThread(thread, thread, fmt::format("fdinfo/{}", descriptor).c_str());
  const size_t at = info.find(kFlags);
  return at == std::string::npos || (strtoul(info.c_str() + at + kFlags.size(), nullptr, 8) & O_NONBLOCK) == 0;
}

uint64_t BytesOfVector(pid_t thread, uint64_t address, uint64_t count) {
  std::vector<iovec> parts(std::min<uint64_t>(count, IOV_MAX));
  if (parts.empty() || !ReadTraced(thread, address, parts.data(), parts.size() * sizeof parts[0])) return 0;
  uint64_t bytes = 0;
  for (const iovec& part : parts) bytes += part.iov_len;
  return bytes;
}

uint64_t BytesOfMessage(pid_t thread, uint64_t address) {
  msghdr message{};
  if (!ReadTraced(thread, address, &message, sizeof message)) return 0;
  return BytesOfVector(thread, reinterpret_cast<uint64_t>(message.msg_iov), message.msg_iovlen);
}

// What the call returns if it may wait until all is done; 0: it may return less at any time.
uint64_t WholeResult(pid_t thread, const BlockedCall& call) {
  const auto& arguments = call.arguments;
  const auto has = [](uint64_t flags, uint64_t flag) { return (flags & flag) != 0; };
  switch (call.number) {
    case SYS_write:
      return arguments[2];
    case SYS_writev:
      return BytesOfVector(thread, arguments[1], arguments[2]);
    case SYS_sendfile:
      return arguments[3];
    case SYS_sendto:
      return has(arguments[3], MSG_DONTWAIT) ? 0 : arguments[2];
    case SYS_sendmsg:
      return has(arguments[2], MSG_DONTWAIT) ? 0 : BytesOfMessage(thread, arguments[1]);
    case SYS_sendmmsg:
      return has(arguments[3], MSG_DONTWAIT) ? 0 : arguments[2];
    case SYS_recvfrom:
      return has(arguments[3], MSG_WAITALL) ? arguments[2] : 0;
    case SYS_recvmsg:
      return has(arguments[2], MSG_WAITALL) ? BytesOfMessage(thread, arguments[1]) : 0;
    case SYS_recvmmsg:
      return has(arguments[3], MSG_WAITFORONE | MSG_DONTWAIT) ? 0 : arguments[2];
    default:
      return 0;
  }
}

}  // namespace

StopCost CostOfStop(pid_t thread, const BlockedCall& call) {
  constexpr uint64_t kOpenFileLock = 38;  // F_OFD_SETLKW
  const auto& arguments = call.arguments;
  switch (call.number) {
    case SYS_futex: {
      const auto operation = arguments[1] & FUTEX_CMD_MASK;
      if (operation != FUTEX_WAIT && operation != FUTEX_WAIT_BITSET) return StopCost::kImpossible;
      return arguments[3] == 0 ? StopCost::kNothing : StopCost::kLonger;
    }
    case SYS_read:
    case SYS_readv:
      return CostOfRead(thread, arguments[0]);
    case SYS_write:
      return CostOfWrite(thread, arguments[0], arguments[2]);
    case SYS_writev:
      return CostOfWrite(thread, arguments[0], UINT64_MAX);
    case SYS_wait4:
    case SYS_waitid:
    case SYS_flock:
      return StopCost::kNothing;
#if defined(__x86_64__)  // other processors have only the forms with more arguments
    case SYS_poll:
    case SYS_select:
    case SYS_pause:
#endif
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
    case SYS_rt_sigsuspend:
    case SYS_restart_syscall:  // one of these, or a futex with a timeout, was stopped before
      return StopCost::kLonger;
    case SYS_fcntl:
      return arguments[1] == F_SETLKW || arguments[1] == kOpenFileLock ? StopCost::kNothing : StopCost::kImpossible;
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_sendfile:
      return StopCost::kShort;
    case SYS_recvfrom:
      return (arguments[3] & MSG_WAITALL) != 0 ? StopCost::kShort : StopCost::kReturns;
    case SYS_recvmsg:
      return (arguments[2] & MSG_WAITALL) != 0 ? StopCost::kShort : StopCost::kReturns;
    case SYS_recvmmsg:
      return (arguments[3] & MSG_WAITFORONE) == 0 && arguments[2] > 1 ? StopCost::kShort : StopCost::kReturns;
#if defined(__x86_64__)
    case SYS_epoll_wait:
#endif
    case SYS_epoll_pwait:
    case SYS_accept:
    case SYS_accept4:
    case SYS_rt_sigtimedwait:
    case 441:  // epoll_pwait2
      return StopCost::kReturns;
    default:
      return StopCost::kImpossible;
  }
}

bool IsCallLost(pid_t thread, const BlockedCall& call, int64_t result) {
  if (call.number < 0) return false;
  if (result == -EINTR) return true;
  return result > 0 && static_cast<uint64_t>(result) < WholeResult(thread, call) && Waits(thread, call.arguments[0]);
}

#if defined(__x86_64__)
BlockedCall CallIn(const user_regs_struct& registers) {
  return {.number = static_cast<int64_t>(registers.orig_rax),
          .arguments = {registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9},
          .sp = registers.rsp,
          .pc = registers.rip};
}
bool IsCallOfStoppedLost(pid_t thread) {
  user_regs_struct registers{};
  return ptrace(PTRACE_GETREGS, thread, nullptr, &registers) == 0 &&
         IsCallLost(thread, CallIn(registers), static_cast<int64_t>(registers.rax));
}
#endif

}  // namespace holdfast
