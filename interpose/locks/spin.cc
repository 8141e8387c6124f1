// Spin locks. Their waiters do not sleep: every unlock of a watched lock checks for waiters.
#include "interpose/locks/spin.h"

#include <pthread.h>

#include "interpose/base/old_version.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/locks/cancellation.h"
#include "interpose/locks/straight_on.h"
#include "sampler/arch/processor.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/record/holds.h"
#include "sampler/record/waits.h"

namespace holdfast {
namespace {

inline bool LooksFree(const pthread_spinlock_t* lock) { return IsFreeSpinLock(*lock); }

// musl's function; null with glibc. There, 0 is free and more is taken, so free locks come to the slow path, and taken ones
// to real.pthread_spin_lock, which is TakenOnMusl.
using SpinFunction = int (*)(pthread_spinlock_t*);
constinit SpinFunction musls = nullptr;

inline int RealLock(pthread_spinlock_t* lock) {
  return UNLIKELY(musls != nullptr) ? musls(lock) : real.pthread_spin_lock(lock);
}

HOLDFAST_COLD int LockSlow(pthread_spinlock_t* lock) {
  if (!Ready()) return kTooEarly;
  if (UNLIKELY(musls != nullptr) && *lock == 0) return musls(lock);
  LockWait wait;
  WaitCleanup cleanup;
  BeginWait(HOLDFAST_CALLER(), const_cast<const int*>(lock), WaitKind::kSpin, WaitStyle::kWhole, &wait);
  EnterWait(musls != nullptr ? *lock == 0 : LooksFree(lock), &wait);
  cleanup.Push(&wait);
  const int result = RealLock(lock);
  cleanup.Pop();
  EndWait(&wait, true);
  return result;
}

HOLDFAST_COLD int TakenOnMusl(pthread_spinlock_t* lock) {
  if (UNLIKELY(passes_through) || UNLIKELY(LittleStackForWait())) return musls(lock);
  return LockSlow(lock);
}

HOLDFAST_COLD int UnlockSlow(pthread_spinlock_t* lock) {
  if (!Ready()) return kTooEarly;
  LockHold hold;
  BeginUnlock(const_cast<const int*>(lock), WaitKind::kSpin, true, &hold);
  const int result = real.pthread_spin_unlock(lock);
  EndUnlock(HOLDFAST_CALLER(), true, &hold);
  return result;
}

__attribute__((noinline)) int UnlockWatched(pthread_spinlock_t* lock) {
  if (WatchedSlow(const_cast<const int*>(lock))) return UnlessLittleStack<UnlockSlow, &Real::pthread_spin_unlock>(lock);
  if (MayUnlockFast()) return real.pthread_spin_unlock(lock);
  const int result = real.pthread_spin_unlock(lock);
  AfterUnlock(const_cast<const int*>(lock));
  return result;
}

}  // namespace

void UseMuslSpinLocks() {
  musls = real.pthread_spin_lock;
  real.pthread_spin_lock = TakenOnMusl;
}

}  // namespace holdfast

using namespace holdfast;

extern "C" {

HOLDFAST_EXPORT int pthread_spin_lock(pthread_spinlock_t* lock) noexcept {
  if (LIKELY(LooksFree(lock) && hot_size_limit != 0)) return real.pthread_spin_lock(lock);
  return UnlessLittleStack<LockSlow, &Real::pthread_spin_lock>(lock);
}
HOLDFAST_EXPORT int pthread_spin_unlock(pthread_spinlock_t* lock) noexcept {
  if (NoLockWatched()) return real.pthread_spin_unlock(lock);
  return UnlockWatched(lock);
}

}  // extern "C"

HOLDFAST_OLD_VERSION(int, pthread_spin_lock, 2_2_5, HOLDFAST_GLIBC_2_2_5, (pthread_spinlock_t * lock), (lock));
HOLDFAST_OLD_VERSION(int, pthread_spin_unlock, 2_2_5, HOLDFAST_GLIBC_2_2_5, (pthread_spinlock_t * lock), (lock));
