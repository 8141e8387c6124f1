// Futexes that a program uses directly, through libc's variadic `syscall`: std::atomic::wait, std::counting_semaphore,
// latch, guards of static variables, abseil's Mutex, Rust's std. The entry point `syscall`
// (interpose/arch/entry_points.h) comes here with every register as the program left it, and nothing of ours on the
// stack.
//
// A wait counts for the waiter. A wake-up ends the waiting, which is attributed to the waker's stack as for an unlock.
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>

#include "interpose/arch/entry_points.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/locks/straight_on.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/process/process.h"
#include "sampler/record/holds.h"
#include "sampler/record/waits.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

namespace holdfast {
namespace {

// Other results return at once, without a wait: the word had changed already, or the call is invalid or unknown.
inline bool HasWaited(long result) { return result >= 0 || errno == ETIMEDOUT || errno == EINTR; }

template <typename Call>
inline long Wait(const CallerRegisters& caller, const uint32_t* word, Call call) {
  LockWait wait;
  BeginWait(caller, word, WaitKind::kFutex, WaitStyle::kWhole, &wait);
  EnterWait(false, &wait);
  const long result = call();
  if (HasWaited(result)) {
    EndWait(&wait, result >= 0);
  } else {
    DropWait(&wait);
  }
  return result;
}

template <typename Call>
inline long Wake(const CallerRegisters& caller, const uint32_t* word, Call call) {
  if (NoLockWatched<kWokenTable>() || !WatchedSlow(word, kWokenTable)) return call();
  LockHold hold;
  BeginUnlock(word, WaitKind::kFutex, true, &hold);
  const long result = call();
  EndUnlock(caller, result >= 0, &hold);
  return result;
}

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" {

static __attribute__((noinline)) long FutexSlow(long number, long a, long b, long c, long d, long e, long f) {
  const auto* word = reinterpret_cast<const uint32_t*>(a);
  const auto call = [=] { return real.syscall(number, a, b, c, d, e, f); };
  switch (b & ~(FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME)) {
    case FUTEX_WAIT:
    case FUTEX_WAIT_BITSET:
    case FUTEX_LOCK_PI:
    case FUTEX_LOCK_PI2:
      return Wait(HOLDFAST_CALLER(), word, call);
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
    case FUTEX_WAKE_OP:
    case FUTEX_REQUEUE:
    case FUTEX_CMP_REQUEUE:
    case FUTEX_UNLOCK_PI:
      return Wake(HOLDFAST_CALLER(), word, call);
    default:
      return call();
  }
}

// futex_wake, futex_wait and futex_waitv, system calls of their own since Linux 6.7 and 5.16.
static __attribute__((noinline)) long Futex2WakeSlow(long number, long a, long b, long c, long d, long e, long f) {
  return Wake(HOLDFAST_CALLER(), reinterpret_cast<const uint32_t*>(a),
              [=] { return real.syscall(number, a, b, c, d, e, f); });
}
static __attribute__((noinline)) long Futex2WaitSlow(long number, long a, long b, long c, long d, long e, long f) {
  return Wait(HOLDFAST_CALLER(), reinterpret_cast<const uint32_t*>(a),
              [=] { return real.syscall(number, a, b, c, d, e, f); });
}
// Waits for any of many futexes: only the wait is recorded, because nobody knows which wake-up will end it.
static __attribute__((noinline)) long FutexWaitvSlow(long number, long a, long b, long c, long d, long e, long f) {
  return Wait(HOLDFAST_CALLER(), nullptr, [=] { return real.syscall(number, a, b, c, d, e, f); });
}

HOLDFAST_HIDDEN long HoldfastFutex(long number, long a, long b, long c, long d, long e, long f) {
  if (UNLIKELY(!Ready())) return HoldfastEarlySyscall(number, a, b, c, d, e, f);
  if (UNLIKELY(HasForeignThreadPointer())) return real.syscall(number, a, b, c, d, e, f);
  return UnlessLittleStack<FutexSlow, &Real::syscall>(number, a, b, c, d, e, f);
}
HOLDFAST_HIDDEN long HoldfastFutex2Wake(long number, long a, long b, long c, long d, long e, long f) {
  if (UNLIKELY(!Ready())) return HoldfastEarlySyscall(number, a, b, c, d, e, f);
  if (UNLIKELY(HasForeignThreadPointer())) return real.syscall(number, a, b, c, d, e, f);
  return UnlessLittleStack<Futex2WakeSlow, &Real::syscall>(number, a, b, c, d, e, f);
}
HOLDFAST_HIDDEN long HoldfastFutex2Wait(long number, long a, long b, long c, long d, long e, long f) {
  if (UNLIKELY(!Ready())) return HoldfastEarlySyscall(number, a, b, c, d, e, f);
  if (UNLIKELY(HasForeignThreadPointer())) return real.syscall(number, a, b, c, d, e, f);
  return UnlessLittleStack<Futex2WaitSlow, &Real::syscall>(number, a, b, c, d, e, f);
}
HOLDFAST_HIDDEN long HoldfastFutexWaitv(long number, long a, long b, long c, long d, long e, long f) {
  if (UNLIKELY(!Ready())) return HoldfastEarlySyscall(number, a, b, c, d, e, f);
  if (UNLIKELY(HasForeignThreadPointer())) return real.syscall(number, a, b, c, d, e, f);
  return UnlessLittleStack<FutexWaitvSlow, &Real::syscall>(number, a, b, c, d, e, f);
}

}  // extern "C"
