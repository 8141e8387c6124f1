// The time, in nanoseconds of CLOCK_MONOTONIC. Any thread, signal handlers.
#ifndef HOLDFAST_SAMPLER_CONTRACT_CLOCK_H_
#define HOLDFAST_SAMPLER_CONTRACT_CLOCK_H_

#include <time.h>

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {

inline constexpr int64_t kNsOfSecond = 1'000'000'000;

// 0 where reading the clock would be the program's end: then waits have no length and samples cost nothing.
inline int64_t MonotonicNs() {
  if (UNLIKELY(no_clock.load(std::memory_order_relaxed))) return 0;
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsOfSecond + now.tv_nsec;
}

// By a system call: also before the shim is relocated.
inline int64_t KernelNs() {
  timespec now{};
  RawSyscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return now.tv_sec * kNsOfSecond + now.tv_nsec;
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_CLOCK_H_
