// The time, in nanoseconds of CLOCK_MONOTONIC. Any thread, signal handlers.
//
// The clock is read through the function that the kernel maps into every process (the vDSO), not through libc's name: a
// program may interpose a clock_gettime that allocates, locks, and answers another time (libfaketime does all three).
#ifndef HOLDFAST_SAMPLER_CONTRACT_CLOCK_H_
#define HOLDFAST_SAMPLER_CONTRACT_CLOCK_H_

#include <time.h>

#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {

inline constexpr int64_t kNsOfSecond = 1'000'000'000;

// The kernel's function. Null if it maps none, and before FindMappedClock: each read is then a system call.
using ClockFunction = int (*)(clockid_t, timespec*);
extern HOLDFAST_HIDDEN ClockFunction mapped_clock;

// Call once, at the start. `vdso`: the image that AT_SYSINFO_EHDR names; null: there is none.
void FindMappedClock(const void* vdso);

// 0, or −errno.
inline int ReadClock(clockid_t clock, timespec* now) {
  if (LIKELY(mapped_clock != nullptr)) return mapped_clock(clock, now);
  return static_cast<int>(RawSyscall(SYS_clock_gettime, clock, now));
}

inline int64_t NsOf(const timespec& time) { return time.tv_sec * kNsOfSecond + time.tv_nsec; }

// Returns 0 if reading the clock would kill the program: then waits have no length and samples no cost.
inline int64_t MonotonicNs() {
  if (UNLIKELY(no_clock.load(std::memory_order_relaxed))) return 0;
  timespec now{};
  ReadClock(CLOCK_MONOTONIC, &now);
  return NsOf(now);
}

// By a system call: also before the shim is relocated.
inline int64_t KernelNs() {
  timespec now{};
  RawSyscall(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
  return NsOf(now);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CONTRACT_CLOCK_H_
