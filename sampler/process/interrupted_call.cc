#include "sampler/process/interrupted_call.h"

#include <errno.h>
#include <linux/futex.h>

#include <bit>

#include "sampler/arch/interrupted_call.h"
#include "sampler/contract/cpu_sampling.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {
namespace {

constexpr uint64_t kMaskBytes = 8;
constexpr uint64_t kTimersBit = uint64_t{1} << (kCpuSignal - 1);

constinit std::atomic<bool> keeps_all_registers{false};

// Without thread-local memory, unlike PageReadable.
bool IsReadable(uint64_t address, uint64_t bytes) {
  const auto probe = [](uint64_t at) { return RawSyscall(SYS_rt_sigprocmask, -1L, at, 0L, kMaskBytes) == -EINVAL; };
  // The kernel reads a mask from each, so the word ends with the last byte.
  return address >= kPageBytes && address < kUserEnd - kPageBytes && probe(address) &&
         (bytes <= kMaskBytes || probe(address + bytes - kMaskBytes));
}

// Whether a handler without SA_RESTART ends this call with EINTR, and one with SA_RESTART lets it start again
// (ERESTARTSYS). Where both kinds depend on the arguments, those that wait.
bool IsEndedWithoutRestart(const InterruptedCall& call) {
  switch (call.number) {
    case SYS_read:
    case SYS_write:
    case SYS_pread64:
    case SYS_pwrite64:
    case SYS_readv:
    case SYS_writev:
    case SYS_preadv:
    case SYS_pwritev:
    case SYS_preadv2:
    case SYS_pwritev2:
    case SYS_ioctl:
    case SYS_sendfile:
    case SYS_splice:
    case SYS_tee:
    case SYS_vmsplice:
    case SYS_connect:
    case SYS_accept:
    case SYS_accept4:
    case SYS_sendto:
    case SYS_recvfrom:
    case SYS_sendmsg:
    case SYS_recvmsg:
    case SYS_sendmmsg:
    case SYS_recvmmsg:
    case SYS_wait4:
    case SYS_waitid:
    case SYS_flock:
    case SYS_openat:
    case SYS_openat2:
    case SYS_mq_timedsend:
    case SYS_mq_timedreceive:
    case SYS_getrandom:
#ifdef SYS_open
    case SYS_open:
    case SYS_creat:
#endif
      return true;
    case SYS_fcntl:
      return call.arguments[1] == F_SETLKW || call.arguments[1] == F_OFD_SETLKW;
    case SYS_futex: {
      const uint64_t operation =
          call.arguments[1] & ~uint64_t{static_cast<unsigned>(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)};
      return operation == FUTEX_WAIT || operation == FUTEX_WAIT_BITSET;
    }
    case 449:  // futex_waitv
    case 455:  // futex_wait
      return true;
    default:
      return false;
  }
}

// Of the signals in the set, those with a handler; `only_without_restart`: and without SA_RESTART.
uint64_t WithHandler(uint64_t signals, bool only_without_restart) {
  struct {  // as the kernel has it
    uint64_t handler, flags, restorer, mask;
  } action;
  uint64_t found = 0;
  for (uint64_t left = signals; left != 0; left &= left - 1) {
    const int number = std::countr_zero(left) + 1;
    if (SyscallFailed(RawSyscall(SYS_rt_sigaction, number, 0L, &action, kMaskBytes)) || action.handler <= 1) continue;
    if (!only_without_restart || (action.flags & SA_RESTART) == 0) found |= uint64_t{1} << (number - 1);
  }
  return found;
}

// Reads the mask at an address that may be nothing; all signals if it is.
uint64_t MaskAt(uint64_t address, uint64_t bytes) {
  uint64_t mask = kAllSignals;
  if (bytes == kMaskBytes && IsReadable(address, kMaskBytes))
    __builtin_memcpy(&mask, reinterpret_cast<const void*>(address), sizeof mask);
  return mask;
}
// The same for an address that has a pointer to the mask, and the mask's size.
uint64_t MaskIn(uint64_t address) {
  uint64_t both[2] = {};
  if (address % sizeof(uint64_t) != 0 || !IsReadable(address, sizeof both)) return kAllSignals;
  __builtin_memcpy(both, reinterpret_cast<const void*>(address), sizeof both);
  return MaskAt(both[0], both[1]);
}

// The mask that a call has set while it waited; all signals if it set none.
uint64_t TemporaryMask(const InterruptedCall& call) {
  const uint64_t(&arguments)[6] = call.arguments;
  switch (call.number) {
    case SYS_rt_sigsuspend:
      return MaskAt(arguments[0], arguments[1]);
    case SYS_ppoll:
      return MaskAt(arguments[3], arguments[4]);
    case SYS_epoll_pwait:
    case 441:  // epoll_pwait2
      return MaskAt(arguments[4], arguments[5]);
    case SYS_pselect6:
    case 333:  // io_pgetevents
      return MaskIn(arguments[5]);
    case 426: {  // io_uring_enter; with IORING_ENTER_EXT_ARG the size is that of the structure that begins with the two
      constexpr uint64_t kExtendedArgument = 8;
      return (arguments[3] & kExtendedArgument) != 0 ? MaskIn(arguments[4]) : MaskAt(arguments[4], arguments[5]);
    }
    case -1: {
      // The number came from a register that has changed. Only a call with a mask has its size in one of these places,
      // or a value that happened to be there.
      if (arguments[1] == kMaskBytes) return MaskAt(arguments[0], kMaskBytes);
      if (arguments[4] == kMaskBytes) return MaskAt(arguments[3], kMaskBytes);
      return arguments[5] == kMaskBytes ? MaskAt(arguments[4], kMaskBytes) : MaskIn(arguments[5]);
    }
    default:
      return kAllSignals;
  }
}

}  // namespace

void LearnInterruptedCalls() { keeps_all_registers.store(SystemCallKeepsAllRegisters(), std::memory_order_relaxed); }

uint64_t RepairInterruptedCall(ucontext_t* context) {
  if (LIKELY(!MayFollowCall(*context, keeps_all_registers.load(std::memory_order_relaxed)))) return kAllSignals;
  uint64_t pending = 0, blocked = 0;
  if (SyscallFailed(RawSyscall(SYS_rt_sigpending, &pending, kMaskBytes))) return kAllSignals;
  pending &= ~kTimersBit;
  if (LIKELY(pending == 0)) return kAllSignals;
  __builtin_memcpy(&blocked, &context->uc_sigmask, sizeof blocked);
  const auto pc = static_cast<uint64_t>(kSignalPcOffset);
  uint64_t at = 0;
  __builtin_memcpy(&at, reinterpret_cast<const char*>(context) + pc, sizeof at);
  constexpr uint64_t kBefore = 8, kAround = 16;  // the instruction before the system call's, and its own
  if (!IsReadable(at - kBefore, kAround)) return kAllSignals;
  const InterruptedCall call = CallIn(*context);
  if (call.fate == InterruptedCall::kRestarts) {
    if (IsEndedWithoutRestart(call) && WithHandler(pending & ~blocked, true) != 0) FailInterruptedCall(context, EINTR);
    return kAllSignals;
  }
  if (call.fate != InterruptedCall::kFailed || (pending & blocked) == 0) return kAllSignals;
  // A signal that was allowed all the time explains the failure of a call that is not known.
  if (call.number < 0 && WithHandler(pending & ~blocked, false) != 0) return kAllSignals;
  const uint64_t temporary = TemporaryMask(call);
  return WithHandler(pending & blocked & ~temporary, false) != 0 ? temporary : kAllSignals;
}

}  // namespace holdfast
