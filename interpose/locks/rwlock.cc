// Reader-writer locks, like mutex.cc. Readers and writers wait under separate labels; a wait is attributed under the
// label of what its holder had. Several readers hold at once: a wait is attributed to the reader that unlocks last and
// so lets the writer in (SlotReaders in sampler/hot_path/lock_slots.h).
#include <errno.h>
#include <pthread.h>
#include <time.h>

#include "interpose/base/old_version.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/locks/cancellation.h"
#include "interpose/locks/deadline.h"
#include "interpose/locks/straight_on.h"
#include "sampler/contract/lock_words.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/process/process.h"
#include "sampler/record/holds.h"
#include "sampler/record/waits.h"

namespace holdfast {
namespace {

// The first word of glibc's pthread_rwlock_t: bit 0 while writers have their turn, bit 1 while a writer has it locked (or
// waits for the readers to go), above bit 2 the number of readers. All are hints: the try functions decide.
inline uint32_t BlocksReaders(const pthread_rwlock_t* lock) { return lock->__data.__readers & 2; }
inline uint32_t BlocksWriters(const pthread_rwlock_t* lock) { return lock->__data.__readers & ~1u; }

// Slow paths also know musl's word. On musl every lock takes a slow path (AlwaysLookSlowly).
inline bool IsMusls() { return UNLIKELY(process.libc == Libc::kMusl); }
inline const MuslRwlock* Musls(const pthread_rwlock_t* lock) { return reinterpret_cast<const MuslRwlock*>(lock); }

inline uint32_t Word(const pthread_rwlock_t* lock) {
  return __atomic_load_n(&lock->__data.__readers, __ATOMIC_RELAXED);
}
inline uint32_t ReadersOf(const pthread_rwlock_t* lock) { return IsMusls() ? Musls(lock)->Readers() : Word(lock) >> 3; }
inline bool HasWriter(const pthread_rwlock_t* lock) {
  return IsMusls() ? Musls(lock)->HasWriter() : (Word(lock) & 1) != 0;
}

struct Reading {
  static constexpr WaitKind kKind = WaitKind::kRwlockRead;
  static int Try(pthread_rwlock_t* lock) { return real.pthread_rwlock_tryrdlock(lock); }
  static int Lock(pthread_rwlock_t* lock) { return real.pthread_rwlock_rdlock(lock); }
  static int Timed(pthread_rwlock_t* lock, const timespec* until) {
    return real.pthread_rwlock_timedrdlock(lock, until);
  }
  static int Clock(pthread_rwlock_t* lock, clockid_t clock, const timespec* until) {
    return real.pthread_rwlock_clockrdlock(lock, clock, until);
  }
  static bool LooksFree(const pthread_rwlock_t* lock) {
    return IsMusls() ? !Musls(lock)->HasWriter() : BlocksReaders(lock) == 0;
  }
};
struct Writing {
  static constexpr WaitKind kKind = WaitKind::kRwlockWrite;
  static int Try(pthread_rwlock_t* lock) { return real.pthread_rwlock_trywrlock(lock); }
  static int Lock(pthread_rwlock_t* lock) { return real.pthread_rwlock_wrlock(lock); }
  static int Timed(pthread_rwlock_t* lock, const timespec* until) {
    return real.pthread_rwlock_timedwrlock(lock, until);
  }
  static int Clock(pthread_rwlock_t* lock, clockid_t clock, const timespec* until) {
    return real.pthread_rwlock_clockwrlock(lock, clock, until);
  }
  static bool LooksFree(const pthread_rwlock_t* lock) {
    return IsMusls() ? Musls(lock)->Count() == 0 : BlocksWriters(lock) == 0;
  }
};

// A thread that waits for a lock that it has locked for writing gets EDEADLK at once: no wait. musl does not know its
// writer, and lets it wait.
inline bool WrittenByCaller(const pthread_rwlock_t* lock) {
  if (IsMusls()) return false;
  const int id = ThreadId();
  return id == 0 || __atomic_load_n(&lock->__data.__cur_writer, __ATOMIC_RELAXED) == id;
}

// A reader that got the lock on the slow path came while a writer waits.
template <typename Side>
inline void NoteIfReader(pthread_rwlock_t* lock) {
  if (Side::kKind == WaitKind::kRwlockRead && WatchedSlow(lock)) NoteReaderCame(lock, ReadersOf(lock));
}

template <typename Side, typename Lock>
inline int LockAndRecord(pthread_rwlock_t* lock, const CallerRegisters& caller, int64_t longest_ns,
                         Lock wait_to_the_end) {
  const int tried = Side::Try(lock);
  if (tried == 0) NoteIfReader<Side>(lock);
  if (tried != EBUSY) return tried;
  if (longest_ns == 0 || WrittenByCaller(lock)) return wait_to_the_end();
  LockWait wait;
  WaitCleanup cleanup;
  // If writers go first, a writer that gives up for a moment would lose its place in the queue. On musl they never do.
  const bool in_parts =
      (IsMusls() || lock->__data.__flags == PTHREAD_RWLOCK_PREFER_READER_NP) && LIKELY(!clock_is_interposed);
  BeginWait(caller, lock, Side::kKind, in_parts ? WaitStyle::kInParts : WaitStyle::kWhole, &wait);
  if (Side::kKind == WaitKind::kRwlockWrite) NoteReadersAtWait(wait, ReadersOf(lock));
  EnterWait(Side::LooksFree(lock), &wait);
  cleanup.Push(&wait);
  int result = ETIMEDOUT;
  if (wait.in_parts() && kFirstPartNs < longest_ns) {
    const timespec until = TimeAt(wait.start_ns() + kFirstPartNs);
    result = Side::Clock(lock, CLOCK_MONOTONIC, &until);
    if (result == ETIMEDOUT) {
      ContinueWait(caller, &wait);
      EnterWait(Side::LooksFree(lock), &wait);
    }
  }
  if (result == ETIMEDOUT) result = wait_to_the_end();
  cleanup.Pop();
  EndWait(&wait, result == 0);
  if (result == 0) NoteIfReader<Side>(lock);
  return result;
}

template <typename Side>
HOLDFAST_COLD int LockSlow(pthread_rwlock_t* lock) {
  if (!Ready()) return kTooEarly;
  return LockAndRecord<Side>(lock, HOLDFAST_CALLER(), INT64_MAX, [lock] { return Side::Lock(lock); });
}
template <typename Side>
HOLDFAST_COLD int TimedSlow(pthread_rwlock_t* lock, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  const auto wait_to_the_end = [=] { return Side::Timed(lock, deadline); };
  // Refused before the lock is read.
  if (!IsTime(deadline)) return wait_to_the_end();
  return LockAndRecord<Side>(lock, HOLDFAST_CALLER(), NsUntil(CLOCK_REALTIME, deadline), wait_to_the_end);
}
template <typename Side>
HOLDFAST_COLD int ClockSlow(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  const auto wait_to_the_end = [=] { return Side::Clock(lock, clock, deadline); };
  if (!IsClockToWaitBy(clock) || !IsTime(deadline)) return wait_to_the_end();
  return LockAndRecord<Side>(lock, HOLDFAST_CALLER(), NsUntil(clock, deadline), wait_to_the_end);
}

HOLDFAST_COLD int UnlockSlow(pthread_rwlock_t* lock) {
  if (!Ready()) return kTooEarly;
  LockHold hold;
  if (HasWriter(lock)) {
    BeginUnlock(lock, WaitKind::kRwlockWrite, true, &hold);
  } else {
    BeginReaderUnlock(lock, &hold);
    SettleReader(HOLDFAST_CALLER(), lock, ReadersOf(lock), &hold);
  }
  const int result = real.pthread_rwlock_unlock(lock);
  EndUnlock(HOLDFAST_CALLER(), result == 0, &hold);
  return result;
}

__attribute__((noinline)) int UnlockWatched(pthread_rwlock_t* lock) {
  if (WatchedSlow(lock)) return UnlessLittleStack<UnlockSlow, &Real::pthread_rwlock_unlock>(lock);
  if (MayUnlockFast()) return real.pthread_rwlock_unlock(lock);
  const int result = real.pthread_rwlock_unlock(lock);
  AfterUnlock(lock);
  return result;
}

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" {

HOLDFAST_EXPORT int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  if (!TakenOrTooEarly(BlocksReaders(lock))) return real.pthread_rwlock_rdlock(lock);
  return UnlessLittleStack<LockSlow<Reading>, &Real::pthread_rwlock_rdlock>(lock);
}
HOLDFAST_EXPORT int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  if (!TakenOrTooEarly(BlocksWriters(lock))) return real.pthread_rwlock_wrlock(lock);
  return UnlessLittleStack<LockSlow<Writing>, &Real::pthread_rwlock_wrlock>(lock);
}
HOLDFAST_EXPORT int pthread_rwlock_timedrdlock(pthread_rwlock_t* lock, const timespec* deadline) noexcept {
  if (!TakenOrTooEarly(BlocksReaders(lock))) return real.pthread_rwlock_timedrdlock(lock, deadline);
  return UnlessLittleStack<TimedSlow<Reading>, &Real::pthread_rwlock_timedrdlock>(lock, deadline);
}
HOLDFAST_EXPORT int pthread_rwlock_timedwrlock(pthread_rwlock_t* lock, const timespec* deadline) noexcept {
  if (!TakenOrTooEarly(BlocksWriters(lock))) return real.pthread_rwlock_timedwrlock(lock, deadline);
  return UnlessLittleStack<TimedSlow<Writing>, &Real::pthread_rwlock_timedwrlock>(lock, deadline);
}
HOLDFAST_EXPORT int pthread_rwlock_clockrdlock(pthread_rwlock_t* lock, clockid_t clock,
                                               const timespec* deadline) noexcept {
  if (!TakenOrTooEarly(BlocksReaders(lock))) return real.pthread_rwlock_clockrdlock(lock, clock, deadline);
  return UnlessLittleStack<ClockSlow<Reading>, &Real::pthread_rwlock_clockrdlock>(lock, clock, deadline);
}
HOLDFAST_EXPORT int pthread_rwlock_clockwrlock(pthread_rwlock_t* lock, clockid_t clock,
                                               const timespec* deadline) noexcept {
  if (!TakenOrTooEarly(BlocksWriters(lock))) return real.pthread_rwlock_clockwrlock(lock, clock, deadline);
  return UnlessLittleStack<ClockSlow<Writing>, &Real::pthread_rwlock_clockwrlock>(lock, clock, deadline);
}
HOLDFAST_EXPORT int pthread_rwlock_unlock(pthread_rwlock_t* lock) noexcept {
  if (NoLockWatched()) return real.pthread_rwlock_unlock(lock);
  return UnlockWatched(lock);
}

}  // extern "C"

// Taking the lock by a try function is no wait, and records nothing: not wrapped.
#define P(...) (__VA_ARGS__)
HOLDFAST_OLD_VERSION(int, pthread_rwlock_rdlock, 2_2_5, HOLDFAST_GLIBC_2_2_5, P(pthread_rwlock_t* lock), P(lock));
HOLDFAST_OLD_VERSION(int, pthread_rwlock_wrlock, 2_2_5, HOLDFAST_GLIBC_2_2_5, P(pthread_rwlock_t* lock), P(lock));
HOLDFAST_OLD_VERSION(int, pthread_rwlock_timedrdlock, 2_2_5, HOLDFAST_GLIBC_2_2_5,
                     P(pthread_rwlock_t* lock, const timespec* deadline), P(lock, deadline));
HOLDFAST_OLD_VERSION(int, pthread_rwlock_timedwrlock, 2_2_5, HOLDFAST_GLIBC_2_2_5,
                     P(pthread_rwlock_t* lock, const timespec* deadline), P(lock, deadline));
HOLDFAST_OLD_VERSION(int, pthread_rwlock_clockrdlock, 2_30, "GLIBC_2.30",
                     P(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline), P(lock, clock, deadline));
HOLDFAST_OLD_VERSION(int, pthread_rwlock_clockwrlock, 2_30, "GLIBC_2.30",
                     P(pthread_rwlock_t* lock, clockid_t clock, const timespec* deadline), P(lock, clock, deadline));
HOLDFAST_OLD_VERSION(int, pthread_rwlock_unlock, 2_2_5, HOLDFAST_GLIBC_2_2_5, P(pthread_rwlock_t* lock), P(lock));
