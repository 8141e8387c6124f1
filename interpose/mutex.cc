// pthread mutexes, the waiter's side.
//
// The one lock, from end to end:
//   pthread_mutex_lock → a peek at the lock word: free → the real lock, by a tail-jump
//                    └→ LockSlow → trylock; only EBUSY goes on → BeginWait → wait a little → StillWaiting
//                                  (captures; holds nothing) → the real lock → EndWait
//
// A peek that loses a race misses one short wait. Results and errno are the real functions' own.
#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "interpose/real.h"

namespace holdfast {
namespace {

// Words of pthread_mutex_t whose places the static initialisers have frozen: lock at 0, kind at 16.
inline bool LooksFree(const pthread_mutex_t* mutex) {
  // Relaxed: only a hint; the real lock decides.
  return __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) == 0;
}

// Kinds whose wait may be cut in two by a timeout: normal, recursive, errorcheck, adaptive. Robust (0x10),
// priority-inheriting (0x20) and priority-protected (0x40) ones may not: their timed forms differ.
inline bool MayWaitInParts(const pthread_mutex_t* mutex) { return (mutex->__data.__kind & 0x70) == 0; }

// An errorcheck mutex that its own thread locks again answers EDEADLK at once: that is no wait. The owner (a thread id)
// lies at 8.
inline bool OwnedByCaller(const pthread_mutex_t* mutex) {
  if ((mutex->__data.__kind & 3) != PTHREAD_MUTEX_ERRORCHECK) return false;
  // Where the thread may not ask for its id, such a mutex is left to the real function.
  if (no_system_calls.load(std::memory_order_relaxed)) return true;
  return __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == gettid();
}

timespec After(int64_t ns) {
  timespec at;
  at.tv_sec = ns / 1'000'000'000;
  at.tv_nsec = ns % 1'000'000'000;
  return at;
}

// Waits for `mutex` with `wait_to_the_end` (the program's own call), in two parts where that can be. `longest_ns`: how
// long the program itself wants to wait at most.
template <typename WaitToTheEnd>
inline int WaitFor(pthread_mutex_t* mutex, const CallerRegisters& caller, int64_t longest_ns, WaitToTheEnd wait_to_the_end) {
  LockWait wait;
  const bool in_parts = MayWaitInParts(mutex);
  BeginWait(caller, WaitKind::kMutex, in_parts, &wait);
  CountCapture(!LooksFree(mutex), &wait);
  if (wait.active && in_parts && kFirstPartNs < longest_ns) {
    const timespec until = After(wait.start_ns + kFirstPartNs);
    const int result = real.pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
    if (result != ETIMEDOUT) {
      EndWait(&wait);
      return result;
    }
    StillWaiting(caller, &wait);
  }
  const int result = wait_to_the_end();
  EndWait(&wait);
  return result;
}

HOLDFAST_COLD int LockSlow(pthread_mutex_t* mutex) {
  if (!Ready()) return kTooEarly;
  const int tried = real.pthread_mutex_trylock(mutex);
  if (tried != EBUSY) return tried;  // 0, EOWNERDEAD, EINVAL …: the answer as it stands
  if (OwnedByCaller(mutex)) return real.pthread_mutex_lock(mutex);
  return WaitFor(mutex, HOLDFAST_CALLER(), INT64_MAX, [mutex] { return real.pthread_mutex_lock(mutex); });
}

// Nanoseconds from now to `deadline` on `clock`; 0 when it has passed or is no time at all.
int64_t NsUntil(clockid_t clock, const timespec* deadline) {
  timespec now;
  const int error = errno;
  if (deadline->tv_nsec < 0 || deadline->tv_nsec >= 1'000'000'000 || clock_gettime(clock, &now) != 0) {
    errno = error;  // the real function answers by its result alone
    return 0;
  }
  const int64_t seconds = deadline->tv_sec - now.tv_sec;
  if (seconds < 0) return 0;
  if (seconds > INT64_MAX / 2'000'000'000) return INT64_MAX;
  const int64_t ns = seconds * 1'000'000'000 + (deadline->tv_nsec - now.tv_nsec);
  return ns > 0 ? ns : 0;
}

HOLDFAST_COLD int ClockLockSlow(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  const auto wait_to_the_end = [=] { return real.pthread_mutex_clocklock(mutex, clock, deadline); };
  // Refused before the lock is looked at, even when it is free.
  if (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC) return wait_to_the_end();
  const int tried = real.pthread_mutex_trylock(mutex);
  if (tried != EBUSY) return tried;
  const int64_t longest = NsUntil(clock, deadline);
  if (longest == 0 || OwnedByCaller(mutex)) return wait_to_the_end();
  return WaitFor(mutex, HOLDFAST_CALLER(), longest, wait_to_the_end);
}

HOLDFAST_COLD int TimedLockSlow(pthread_mutex_t* mutex, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  const auto wait_to_the_end = [=] { return real.pthread_mutex_timedlock(mutex, deadline); };
  const int tried = real.pthread_mutex_trylock(mutex);
  if (tried != EBUSY) return tried;
  const int64_t longest = NsUntil(CLOCK_REALTIME, deadline);
  if (longest == 0 || OwnedByCaller(mutex)) return wait_to_the_end();
  return WaitFor(mutex, HOLDFAST_CALLER(), longest, wait_to_the_end);
}

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" {

HOLDFAST_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (LIKELY(LooksFree(mutex) && hot_size_limit != 0)) return real.pthread_mutex_lock(mutex);
  return LockSlow(mutex);
}

HOLDFAST_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) noexcept {
  if (LIKELY(LooksFree(mutex) && hot_size_limit != 0)) return real.pthread_mutex_clocklock(mutex, clock, deadline);
  return ClockLockSlow(mutex, clock, deadline);
}

HOLDFAST_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* deadline) noexcept {
  if (LIKELY(LooksFree(mutex) && hot_size_limit != 0)) return real.pthread_mutex_timedlock(mutex, deadline);
  return TimedLockSlow(mutex, deadline);
}

HOLDFAST_EXPORT int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  return Ready() ? real.pthread_mutex_trylock(mutex) : kTooEarly;
}

HOLDFAST_EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  return Ready() ? real.pthread_mutex_unlock(mutex) : kTooEarly;
}

}  // extern "C"

// The older version nodes of the same functions. Functions of their own, not aliases: the assembler would rename the
// original along with an alias.
#define HOLDFAST_OLD_VERSION(old, name, version, parameters, arguments) \
  extern "C" HOLDFAST_EXPORT int old parameters noexcept { return name arguments; } \
  asm(".symver " #old "," #name "@" version ",remove")
HOLDFAST_OLD_VERSION(holdfast_trylock_2_2_5, pthread_mutex_trylock, "GLIBC_2.2.5", (pthread_mutex_t* mutex), (mutex));
HOLDFAST_OLD_VERSION(holdfast_timedlock_2_2_5, pthread_mutex_timedlock, "GLIBC_2.2.5",
                     (pthread_mutex_t* mutex, const timespec* deadline), (mutex, deadline));
HOLDFAST_OLD_VERSION(holdfast_clocklock_2_30, pthread_mutex_clocklock, "GLIBC_2.30",
                     (pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline), (mutex, clock, deadline));
