// Deadlines of timed waits. Pure but for the clock; errno stays.
#ifndef HOLDFAST_INTERPOSE_LOCKS_DEADLINE_H_
#define HOLDFAST_INTERPOSE_LOCKS_DEADLINE_H_

#include <errno.h>
#include <stdint.h>
#include <time.h>

#include "sampler/contract/syscalls.h"

namespace holdfast {

inline timespec TimeAt(int64_t ns) {
  timespec at;
  at.tv_sec = ns / 1'000'000'000;
  at.tv_nsec = ns % 1'000'000'000;
  return at;
}

// What libc refuses, some of it without a look at what is waited for.
inline bool IsTime(const timespec* deadline) { return deadline->tv_nsec >= 0 && deadline->tv_nsec < 1'000'000'000; }
inline bool IsClockToWaitBy(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

// Nanoseconds from now to `deadline` on `clock`; 0 when it has passed, is no time at all, or the time cannot be known.
inline int64_t NsUntil(clockid_t clock, const timespec* deadline) {
  timespec now;
  const int error = errno;
  if (no_clock.load(std::memory_order_relaxed)) return 0;
  if (!IsTime(deadline) || clock_gettime(clock, &now) != 0) {
    errno = error;  // the real function answers by its result alone
    return 0;
  }
  const int64_t seconds = deadline->tv_sec - now.tv_sec;
  if (seconds < 0) return 0;
  if (seconds > INT64_MAX / 2'000'000'000) return INT64_MAX;
  const int64_t ns = seconds * 1'000'000'000 + (deadline->tv_nsec - now.tv_nsec);
  return ns > 0 ? ns : 0;
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_LOCKS_DEADLINE_H_
