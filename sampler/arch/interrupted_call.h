// The system call in which a signal interrupted a thread, as the handler finds it in the signal frame.
//
//   SystemCallKeepsAllRegisters   whether a system call leaves no trace in the registers (x86-64 with FRED)
//   MayFollowCall                 a cheap test: false if the signal interrupted no system call; takes the answer of the
//                                 function above, which makes the test weaker
//   CallIn                        what the kernel did with the call. The 8 bytes of code before the interrupted address
//                                 must be readable, and those after it
//   FailInterruptedCall           lets a call that would start again fail instead: the code after it finds −error
#ifndef HOLDFAST_SAMPLER_ARCH_INTERRUPTED_CALL_H_
#define HOLDFAST_SAMPLER_ARCH_INTERRUPTED_CALL_H_

#include <signal.h>

#include <cstdint>

#include "sampler/arch/processor.h"

namespace holdfast {

struct InterruptedCall {
  enum Fate : uint8_t {
    kNone,      // there is none
    kRestarts,  // starts again when the handler returns
    kFailed,    // returns EINTR when the handler returns
  };
  Fate fate = kNone;
  long number = -1;  // −1: not known. The kernel keeps no number of a call that failed, only the code may have it.
  uint64_t arguments[6] = {};
};

}  // namespace holdfast

#if defined(__x86_64__)
#include "sampler/arch/x86_64/interrupted_call_inline.h"
#elif defined(__aarch64__)
#include "sampler/arch/aarch64/interrupted_call_inline.h"
#endif

#endif  // HOLDFAST_SAMPLER_ARCH_INTERRUPTED_CALL_H_
