// A wait for another thread that is about to do what only one does: it has blocked its signals, so none of its own handlers waits here.
#ifndef HOLDFAST_SAMPLER_PROCESS_BOUNDED_WAIT_H_
#define HOLDFAST_SAMPLER_PROCESS_BOUNDED_WAIT_H_

#include <time.h>

#include "sampler/contract/syscalls.h"

namespace holdfast {

// Until `done`, but at most 100 ms or so. Any thread; no time at all behind a seccomp filter.
template <typename Done>
void AwaitBounded(Done done) {
  const timespec pause = {0, 100'000};
  for (int i = 0; i < 1000 && !done(); ++i) {
    if (!no_system_calls.load(std::memory_order_relaxed)) RawSyscall(SYS_nanosleep, &pause, 0);
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_BOUNDED_WAIT_H_
