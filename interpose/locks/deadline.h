// Deadlines of timed waits. Pure, except for the clock.
#ifndef HOLDFAST_INTERPOSE_LOCKS_DEADLINE_H_
#define HOLDFAST_INTERPOSE_LOCKS_DEADLINE_H_

#include <stdint.h>
#include <time.h>

#include "interpose/base/readiness.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/syscalls.h"

namespace holdfast {

inline timespec TimeAt(int64_t ns) {
  timespec at;
  at.tv_sec = ns / 1'000'000'000;
  at.tv_nsec = ns % 1'000'000'000;
  return at;
}

// libc refuses other values, in part without looking at the lock.
inline bool IsTime(const timespec* deadline) { return deadline->tv_nsec >= 0 && deadline->tv_nsec < 1'000'000'000; }
inline bool IsClockToWaitBy(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

// Nanoseconds from now to `deadline` on `clock`; 0 if it has passed, is invalid, or the time is not available. With an
// interposed clock the program's deadline is in another time: then any time may remain.
inline int64_t NsUntil(clockid_t clock, const timespec* deadline) {
  timespec now;
  if (no_clock.load(std::memory_order_relaxed) || !IsTime(deadline)) return 0;
  if (clock_is_interposed) return INT64_MAX;
  if (ReadClock(clock, &now) != 0 || deadline->tv_sec < now.tv_sec) return 0;
  int64_t seconds = 0;
  if (__builtin_sub_overflow(deadline->tv_sec, now.tv_sec, &seconds) || seconds > INT64_MAX / 2'000'000'000)
    return INT64_MAX;
  const int64_t ns = seconds * 1'000'000'000 + (deadline->tv_nsec - now.tv_nsec);
  return ns > 0 ? ns : 0;
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_LOCKS_DEADLINE_H_
