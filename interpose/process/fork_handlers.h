// Registers handlers of fork with libc.
//
// Before glibc 2.36, fork holds the lock of the list of handlers while it runs them. A thread that registers then waits for
// the handlers of the other one, and such a handler may wait for a lock that the first thread holds. So a thread that was
// borrowed registers nothing while that lock is taken. libc does not export the lock: the code that takes it tells where it is.
//
//     __register_atfork:  … mov $1, %edx; lock cmpxchg %edx, 0x10660d(%rip)
#ifndef HOLDFAST_INTERPOSE_PROCESS_FORK_HANDLERS_H_
#define HOLDFAST_INTERPOSE_PROCESS_FORK_HANDLERS_H_

#include "sampler/contract/syscalls.h"

namespace holdfast {

// For about 10 ms: most forks take less, and one may wait for the program, in a handler of its own.
template <typename Done>
bool AwaitFork(Done done) {
  constexpr int kLooks = 100;
  for (int i = 0; i < kLooks; ++i) {
    if (done()) return true;
    SleepShortly(50'000);
  }
  return false;
}

struct ForkHandlers {
  void (*before)();
  void (*after)();
  void (*in_child)();
};

// As pthread_atfork, of whichever libc. Allocates.
void RegisterForkHandlers(const ForkHandlers& handlers);
// The same, unless another thread has the lock for 10 ms: false. It may be taken within the few instructions between the last look
// and the call.
bool TryRegisterForkHandlers(const ForkHandlers& handlers);

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_PROCESS_FORK_HANDLERS_H_
