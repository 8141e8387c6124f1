// Mutexes: pthread_mutex_* and C11's mtx_* (which do not pass through the others).
//
// One lock, from end to end:
//   pthread_mutex_lock → a peek at the lock word: free → the real lock, by a tail-jump
//                    └→ LockSlow → trylock; only EBUSY goes on → BeginWait → wait a little → ContinueWait
//                                  (captures; holds nothing) → the real lock → EndWait
//   pthread_mutex_unlock → no lock is waited for, or not this one → the real unlock, by a tail-jump
//                      ├→ one in kOneVisitIn of those, or this thread has sums to add: the real unlock → AfterUnlock
//                      └→ UnlockSlow → BeginUnlock (attributes, decides) → the real unlock → EndUnlock (captures)
//
// A peek that loses a race misses one short wait. Taking a free lock, also by trylock, records nothing:
// sampler/hot_path/lock_slots.h explains why. Results and errno are the real functions' own.
#include "interpose/locks/mutex.h"

#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

#include "interpose/base/old_version.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/locks/cancellation.h"
#include "interpose/locks/deadline.h"
#include "interpose/locks/straight_on.h"
#include "sampler/contract/lock_words.h"
#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/process/process.h"
#include "sampler/record/holds.h"
#include "sampler/record/waits.h"

namespace holdfast {
namespace {

// Words of glibc's pthread_mutex_t at offsets that the static initialisers have frozen: lock at 0, count at 4, owner at
// 8, kind at 16. 1: taken, and nobody sleeps. Robust and priority-inheriting ones have other words, which count as
// "perhaps".
inline bool LooksCalm(const pthread_mutex_t* mutex) { return mutex->__data.__lock == 1; }

// Slow paths also know musl's words. On musl every lock takes a slow path (AlwaysLookSlowly).
inline bool IsMusls() { return UNLIKELY(process.libc == Libc::kMusl); }
inline const MuslMutex* Musls(const pthread_mutex_t* mutex) { return reinterpret_cast<const MuslMutex*>(mutex); }

inline bool LooksFree(const pthread_mutex_t* mutex) {
  // Relaxed: only a hint; the real lock decides.
  return IsMusls() ? Musls(mutex)->IsFree() : __atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) == 0;
}
inline bool HasNoSleepers(const pthread_mutex_t* mutex) {
  return IsMusls() ? Musls(mutex)->HasNoSleepers() : LooksCalm(mutex);
}
// The kinds have the same numbers in both, except for adaptive mutexes, which musl lacks.
inline int KindOf(const pthread_mutex_t* mutex) {
  return IsMusls() ? static_cast<int>(Musls(mutex)->type) : mutex->__data.__kind;
}
inline bool IsRecursive(const pthread_mutex_t* mutex) { return (KindOf(mutex) & 3) == PTHREAD_MUTEX_RECURSIVE; }
// Whether a recursive mutex stays locked after one unlock.
inline bool StaysLocked(const pthread_mutex_t* mutex) {
  return IsMusls() ? Musls(mutex)->count > 0 : mutex->__data.__count > 1;
}

// Kinds with waits that a timeout may split: normal, recursive, errorcheck, adaptive. Robust (glibc's 0x10),
// priority-inheriting (0x20) and priority-protected (0x40) ones cannot be split: their timed forms differ.
inline bool MayWaitInParts(const pthread_mutex_t* mutex) {
  const int whole = IsMusls() ? static_cast<int>(MuslMutex::kRobust | MuslMutex::kInherits) : 0x70;
  return (KindOf(mutex) & whole) == 0 && LIKELY(!clock_is_interposed);
}

// An errorcheck mutex locked again by its own thread returns EDEADLK at once: no wait.
inline bool OwnedByCaller(const pthread_mutex_t* mutex) {
  if ((KindOf(mutex) & 3) != PTHREAD_MUTEX_ERRORCHECK) return false;
  // If the thread may not ask for its id, leave such a mutex to the real function.
  if (no_system_calls.load(std::memory_order_relaxed)) return true;
  const int owner =
      IsMusls() ? static_cast<int>(Musls(mutex)->Owner()) : __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED);
  return owner == ThreadId();
}

// EOWNERDEAD also means that the caller owns the mutex.
inline bool Acquired(int result) { return result == 0 || result == EOWNERDEAD; }

// Waits for `mutex` with `wait_to_the_end` (the program's own call), in two parts if possible. `longest_ns`: the
// program's own limit.
template <typename WaitToTheEnd>
inline int WaitFor(pthread_mutex_t* mutex, const CallerRegisters& caller, int64_t longest_ns,
                   WaitToTheEnd wait_to_the_end) {
  LockWait wait;
  WaitCleanup cleanup;
  BeginWait(caller, mutex, WaitKind::kMutex, MayWaitInParts(mutex) ? WaitStyle::kInParts : WaitStyle::kWhole, &wait);
  EnterWait(LooksFree(mutex), &wait);
  cleanup.Push(&wait);
  int result = ETIMEDOUT;
  if (wait.in_parts() && kFirstPartNs < longest_ns) {
    const timespec until = TimeAt(wait.start_ns() + kFirstPartNs);
    result = real.pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until);
    if (result == ETIMEDOUT) {
      ContinueWait(caller, &wait);
      EnterWait(LooksFree(mutex), &wait);
    }
  }
  if (result == ETIMEDOUT) result = wait_to_the_end();
  cleanup.Pop();
  EndWait(&wait, Acquired(result));
  return result;
}

// A thread must wait for a taken normal or adaptive mutex, whoever holds it. Trying would take the lock's cache line
// from its holder.
inline bool IsSureToWait(const pthread_mutex_t* mutex) {
  if (IsMusls()) return Musls(mutex)->IsNormal() && !LooksFree(mutex);
  const int kind = mutex->__data.__kind & 0x7f;
  return (kind == PTHREAD_MUTEX_NORMAL || kind == PTHREAD_MUTEX_ADAPTIVE_NP) && !LooksFree(mutex);
}

// The slow paths do everything except `lock`: the program's own call, in its own form.
template <typename Lock>
inline int LockAndRecord(pthread_mutex_t* mutex, const CallerRegisters& caller, Lock lock) {
  const int tried = IsSureToWait(mutex) ? EBUSY : real.pthread_mutex_trylock(mutex);
  if (tried != EBUSY) return tried;  // 0, EOWNERDEAD, EINVAL …: the final result
  if (OwnedByCaller(mutex)) return lock();
  return WaitFor(mutex, caller, INT64_MAX, lock);
}

template <typename Lock>
inline int TimedLockAndRecord(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline,
                              const CallerRegisters& caller, Lock lock) {
  const int tried = real.pthread_mutex_trylock(mutex);
  if (tried != EBUSY) return tried;
  const int64_t longest = NsUntil(clock, deadline);
  if (longest == 0 || OwnedByCaller(mutex)) return lock();
  return WaitFor(mutex, caller, longest, lock);
}

HOLDFAST_COLD int LockSlow(pthread_mutex_t* mutex) {
  if (!Ready()) return kTooEarly;
  return LockAndRecord(mutex, HOLDFAST_CALLER(), [mutex] { return real.pthread_mutex_lock(mutex); });
}

HOLDFAST_COLD int ClockLockSlow(pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  const auto lock = [=] { return real.pthread_mutex_clocklock(mutex, clock, deadline); };
  // Refused before the lock is read, even if it is free.
  if (!IsClockToWaitBy(clock)) return lock();
  return TimedLockAndRecord(mutex, clock, deadline, HOLDFAST_CALLER(), lock);
}

HOLDFAST_COLD int TimedLockSlow(pthread_mutex_t* mutex, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  return TimedLockAndRecord(mutex, CLOCK_REALTIME, deadline, HOLDFAST_CALLER(),
                            [=] { return real.pthread_mutex_timedlock(mutex, deadline); });
}

template <typename Unlock>
inline int UnlockAndRecord(pthread_mutex_t* mutex, const CallerRegisters& caller, Unlock unlock) {
  LockHold hold;
  BeginMutexRelease(mutex, &hold);
  const int result = unlock();
  EndUnlock(caller, result == 0, &hold);
  return result;
}

HOLDFAST_COLD int UnlockSlow(pthread_mutex_t* mutex) {
  if (!Ready()) return kTooEarly;
  return UnlockAndRecord(mutex, HOLDFAST_CALLER(), [mutex] { return real.pthread_mutex_unlock(mutex); });
}

// While some lock of the program is contended: whether this unlock may take the fast path anyway. See MayUnlockFast.
HOLDFAST_HOT inline bool UnlocksFast(const pthread_mutex_t* mutex) {
  return LIKELY(LooksCalm(mutex)) && MayUnlockFast();
}

// Other unlocks: those with an unwatched lock pass. `unlock`: the program's own call; `watched`: for watched locks.
template <typename Unlock, typename Watched>
inline int UnlockPerhapsWatched(pthread_mutex_t* mutex, Unlock unlock, Watched watched) {
  // If it only has sums to add after its wait, it need not search its lock.
  const bool only_adds = HasNoSleepers(mutex) && lock_preparing == 0 && HasSumsToAdd();
  if (!only_adds && WatchedSlow(mutex)) return watched();
  const int result = unlock();
  AfterUnlock(mutex);
  return result;
}

__attribute__((noinline)) int UnlockPerhapsWatchedSlow(pthread_mutex_t* mutex) {
  return UnlockPerhapsWatched(
      mutex, [=] { return real.pthread_mutex_unlock(mutex); },
      [=] { return UnlessLittleStack<UnlockSlow, &Real::pthread_mutex_unlock>(mutex); });
}

// ---- C11: a mtx_t is a pthread_mutex_t, and its functions return codes of their own. ----

pthread_mutex_t* Inside(mtx_t* mutex) { return reinterpret_cast<pthread_mutex_t*>(mutex); }

inline int C11Answer(int result) {
  switch (result) {
    case 0:
      return thrd_success;
    case ENOMEM:
      return thrd_nomem;
    case ETIMEDOUT:
      return thrd_timedout;
    case EBUSY:
      return thrd_busy;
    default:
      return thrd_error;
  }
}

HOLDFAST_COLD int C11LockSlow(mtx_t* mutex) {
  if (!Ready()) return kTooEarly;
  return C11Answer(
      LockAndRecord(Inside(mutex), HOLDFAST_CALLER(), [=] { return real.pthread_mutex_lock(Inside(mutex)); }));
}

HOLDFAST_COLD int C11TimedLockSlow(mtx_t* mutex, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  return C11Answer(TimedLockAndRecord(Inside(mutex), CLOCK_REALTIME, deadline, HOLDFAST_CALLER(),
                                      [=] { return real.pthread_mutex_timedlock(Inside(mutex), deadline); }));
}

HOLDFAST_COLD int C11UnlockSlow(mtx_t* mutex) {
  if (!Ready()) return kTooEarly;
  return UnlockAndRecord(Inside(mutex), HOLDFAST_CALLER(), [=] { return real.mtx_unlock(mutex); });
}

__attribute__((noinline)) int C11UnlockPerhapsWatchedSlow(mtx_t* mutex) {
  return UnlockPerhapsWatched(
      Inside(mutex), [=] { return real.mtx_unlock(mutex); },
      [=] { return UnlessLittleStack<C11UnlockSlow, &Real::mtx_unlock>(mutex); });
}

}  // namespace

void BeginMutexRelease(pthread_mutex_t* mutex, LockHold* hold) {
  // The inner unlock of a recursive mutex releases nothing.
  if (IsRecursive(mutex) && StaysLocked(mutex)) {
    *hold = {};
  } else {
    BeginUnlock(mutex, WaitKind::kMutex, !HasNoSleepers(mutex), hold);
  }
}

}  // namespace holdfast

using namespace holdfast;

extern "C" {

HOLDFAST_EXPORT int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (LIKELY(!TakenOrTooEarly(mutex->__data.__lock))) return real.pthread_mutex_lock(mutex);
  return UnlessLittleStack<LockSlow, &Real::pthread_mutex_lock>(mutex);
}

HOLDFAST_EXPORT int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock,
                                            const timespec* deadline) noexcept {
  if (LIKELY(!TakenOrTooEarly(mutex->__data.__lock))) return real.pthread_mutex_clocklock(mutex, clock, deadline);
  return UnlessLittleStack<ClockLockSlow, &Real::pthread_mutex_clocklock>(mutex, clock, deadline);
}

HOLDFAST_EXPORT int pthread_mutex_timedlock(pthread_mutex_t* mutex, const timespec* deadline) noexcept {
  if (LIKELY(!TakenOrTooEarly(mutex->__data.__lock))) return real.pthread_mutex_timedlock(mutex, deadline);
  return UnlessLittleStack<TimedLockSlow, &Real::pthread_mutex_timedlock>(mutex, deadline);
}

HOLDFAST_EXPORT int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  return Ready() ? real.pthread_mutex_trylock(mutex) : kTooEarly;
}

HOLDFAST_EXPORT int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (NoLockWatched() || UnlocksFast(mutex)) return real.pthread_mutex_unlock(mutex);
  return UnlockPerhapsWatchedSlow(mutex);
}

HOLDFAST_EXPORT int mtx_lock(mtx_t* mutex) {
  if (LIKELY(!TakenOrTooEarly(Inside(mutex)->__data.__lock))) return real.mtx_lock(mutex);
  return UnlessLittleStack<C11LockSlow, &Real::mtx_lock>(mutex);
}

HOLDFAST_EXPORT int mtx_timedlock(mtx_t* mutex, const timespec* deadline) {
  if (LIKELY(!TakenOrTooEarly(Inside(mutex)->__data.__lock))) return real.mtx_timedlock(mutex, deadline);
  return UnlessLittleStack<C11TimedLockSlow, &Real::mtx_timedlock>(mutex, deadline);
}

HOLDFAST_EXPORT int mtx_trylock(mtx_t* mutex) { return Ready() ? real.mtx_trylock(mutex) : kTooEarly; }

HOLDFAST_EXPORT int mtx_unlock(mtx_t* mutex) {
  if (NoLockWatched() || UnlocksFast(Inside(mutex))) return real.mtx_unlock(mutex);
  return C11UnlockPerhapsWatchedSlow(mutex);
}

}  // extern "C"

HOLDFAST_OLD_VERSION(int, pthread_mutex_trylock, 2_2_5, HOLDFAST_GLIBC_2_2_5, (pthread_mutex_t * mutex), (mutex));
HOLDFAST_OLD_VERSION(int, pthread_mutex_timedlock, 2_2_5, HOLDFAST_GLIBC_2_2_5,
                     (pthread_mutex_t * mutex, const timespec* deadline), (mutex, deadline));
HOLDFAST_OLD_VERSION(int, pthread_mutex_clocklock, 2_30, "GLIBC_2.30",
                     (pthread_mutex_t * mutex, clockid_t clock, const timespec* deadline), (mutex, clock, deadline));
HOLDFAST_OLD_VERSION(int, mtx_lock, 2_28, "GLIBC_2.28", (mtx_t * mutex), (mutex));
HOLDFAST_OLD_VERSION(int, mtx_timedlock, 2_28, "GLIBC_2.28", (mtx_t * mutex, const timespec* deadline),
                     (mutex, deadline));
HOLDFAST_OLD_VERSION(int, mtx_trylock, 2_28, "GLIBC_2.28", (mtx_t * mutex), (mutex));
HOLDFAST_OLD_VERSION(int, mtx_unlock, 2_28, "GLIBC_2.28", (mtx_t * mutex), (mutex));
