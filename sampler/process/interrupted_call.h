// System calls that a signal of the program ends while the signal of a CPU timer is due.
//
// A CPU timer expires while its thread runs in the kernel, and its signal waits for the return to user code. If the
// call blocks, both the timer's signal and the program's are pending when the call ends. The kernel takes the signals of
// a thread before those of the process, so the timer's handler comes first, and decides alone what happens to the call:
//
//   the call would                the program's handler          without the timer            with it, unless repaired
//   start again (ERESTARTSYS)     has no SA_RESTART              fails with EINTR             starts again, and may block for ever
//   return EINTR (ppoll ...)      is allowed only by the         the handler runs, then the   the call returns, and the signal
//                                 call's temporary mask          call returns                 stays blocked
//
// Other calls end in the same way for every handler: those that always return EINTR, and those that always start again
// (ERESTARTNOINTR: fork, execve, FUTEX_LOCK_PI).
#ifndef HOLDFAST_SAMPLER_PROCESS_INTERRUPTED_CALL_H_
#define HOLDFAST_SAMPLER_PROCESS_INTERRUPTED_CALL_H_

#include <signal.h>

#include <cstdint>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Call once before the first signal.
void LearnInterruptedCalls();

// A signal mask that allows no signal.
inline constexpr uint64_t kAllSignals = ~uint64_t{0};

// Call in the handler of a timer's signal, with all signals blocked, as late as possible: signals that arrive later
// find the call as it is then. Changes the frame where the first row of the table applies. Returns the temporary mask
// that the handler must set before it returns (second row); otherwise kAllSignals. No thread-local memory.
HOLDFAST_HIDDEN uint64_t RepairInterruptedCall(ucontext_t* context);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_INTERRUPTED_CALL_H_
