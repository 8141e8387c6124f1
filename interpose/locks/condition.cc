// Condition variables: pthread_cond_* in both of glibc's versions (2.2.5's are another type: each forwards to its own),
// and C11's cnd_*, which do not use them.
//
//   pthread_cond_wait   releases the mutex (an unlock: attributed), waits for the signal, waits for the mutex
//   pthread_cond_signal makes the threads that it wakes waiters of the mutex
//
// The caller holds the mutex before and after. A stack must therefore be captured with the mutex held, before the wait:
// the only place where we lengthen a hold.
#include <errno.h>
#include <pthread.h>
#include <threads.h>
#include <time.h>

#include "interpose/base/glibc_nodes.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/locks/cancellation.h"
#include "interpose/locks/mutex.h"
#include "interpose/locks/straight_on.h"
#include "sampler/capture/little_stack.h"
#include "sampler/contract/lock_words.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/process/process.h"
#include "sampler/record/holds.h"
#include "sampler/record/waits.h"

namespace holdfast {
namespace {

// Waiters of a condition held its mutex when they came. So all waiters that came before this check are asleep if it is free, or
// the caller's own. Otherwise one may not be: its holder.
bool IsFreeOrOwn(const pthread_mutex_t* mutex) {
  if (__atomic_load_n(&mutex->__data.__lock, __ATOMIC_RELAXED) == 0) return true;
  const int id = ThreadId();
  return id != 0 && __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == id;
}

// musl's normal mutexes do not name their owner. Its conditions have a list of sleepers, which is not walked: if one
// sleeps, so do all. With several waiters, one of them may still hold the mutex, if the signaller does not.
bool SleepOnMusl(const void* condition, const pthread_mutex_t* mutex) {
  const auto* words = static_cast<const MuslCondition*>(condition);
  const auto* lock = reinterpret_cast<const MuslMutex*>(mutex);
  if (lock->IsFree() || (lock->Owner() != 0 && static_cast<int>(lock->Owner()) == ThreadId())) return true;
  return __atomic_load_n(&words->shared, __ATOMIC_RELAXED) == nullptr &&
         __atomic_load_n(&words->first, __ATOMIC_RELAXED) != nullptr;
}

bool AllAreAsleep(const void* condition, const pthread_mutex_t* mutex) {
  return UNLIKELY(process.libc == Libc::kMusl) ? SleepOnMusl(condition, mutex) : IsFreeOrOwn(mutex);
}

template <typename Signal>
inline int SignalAndRecord(const void* condition, bool all, Signal signal) {
  if (!WatchedSlow(condition, kWokenTable)) return signal();
  // Count the waiters before reading the mutex: a thread that comes later may not be asleep yet.
  const ConditionWaiters waiters = WaitersOfCondition(condition);
  const auto* mutex = static_cast<const pthread_mutex_t*>(waiters.mutex);
  // Its memory is valid as long as they wait; a waiter that a handler jumped out of may have left it.
  if (mutex != nullptr && CanRead(mutex) && CanRead(&mutex->__data.__kind) && LIKELY(!LittleStackForWait())) {
    const uint64_t asleep = waiters.count - (AllAreAsleep(condition, mutex) ? 0 : 1);
    RecordSignal(condition, mutex, all ? asleep : asleep != 0);
  }
  return signal();
}

struct CancelledWait {
  LockWait* wait;
  const void* condition;
  const void* mutex;
};
void EndCancelled(void* argument) {  // the thread holds the mutex again
  const auto* cancelled = static_cast<const CancelledWait*>(argument);
  EndConditionWait(cancelled->wait, cancelled->condition, cancelled->mutex, false);
}

// The thread holds the mutex again, in whatever way. ENOTRECOVERABLE: it never will, and the wait is over as well.
inline bool IsWoken(int result) { return result == 0 || result == EOWNERDEAD || result == ENOTRECOVERABLE; }

// `timed_out`: the real function's result on a timeout. Other errors refuse the call, which then is no wait.
template <typename Wait>
inline int WaitAndRecord(const void* condition, pthread_mutex_t* mutex, const CallerRegisters& caller, int timed_out,
                         Wait real_wait) {
  LockHold hold{};
  LockWait wait;
  WaitCleanup cleanup;
  if (WatchedSlow(mutex)) BeginMutexRelease(mutex, &hold);
  EndUnlock(caller, true, &hold);
  BeginConditionWait(caller, condition, mutex, &wait);
  CancelledWait cancelled = {&wait, condition, mutex};
  cleanup.Push(&wait, EndCancelled, &cancelled);
  const int result = real_wait();
  cleanup.Pop();
  if (IsWoken(result) || result == timed_out) {
    EndConditionWait(&wait, condition, mutex, IsWoken(result));
  } else {
    DropWait(&wait);
  }
  return result;
}

pthread_mutex_t* Inside(mtx_t* mutex) { return reinterpret_cast<pthread_mutex_t*>(mutex); }

}  // namespace
}  // namespace holdfast

using namespace holdfast;

// name of the real one, in both versions: pthread_cond_wait and pthread_cond_wait_2_2_5 (real.h)
#define HOLDFAST_CONDITION(exported, target)                                                                      \
  extern "C" HOLDFAST_EXPORT int exported##signal(pthread_cond_t* condition) noexcept {                           \
    if (UNLIKELY(!Ready())) return kTooEarly;                                                                     \
    if (NoLockWatched<kWokenTable>()) return real.pthread_cond_signal##target(condition);                         \
    return SignalAndRecord(condition, false, [=] { return real.pthread_cond_signal##target(condition); });        \
  }                                                                                                               \
  extern "C" HOLDFAST_EXPORT int exported##broadcast(pthread_cond_t* condition) noexcept {                        \
    if (UNLIKELY(!Ready())) return kTooEarly;                                                                     \
    if (NoLockWatched<kWokenTable>()) return real.pthread_cond_broadcast##target(condition);                      \
    return SignalAndRecord(condition, true, [=] { return real.pthread_cond_broadcast##target(condition); });      \
  }                                                                                                               \
  static __attribute__((noinline)) int exported##WaitSlow(pthread_cond_t* condition, pthread_mutex_t* mutex) {    \
    return WaitAndRecord(condition, mutex, HOLDFAST_CALLER(), ETIMEDOUT,                                          \
                         [=] { return real.pthread_cond_wait##target(condition, mutex); });                       \
  }                                                                                                               \
  static __attribute__((noinline)) int exported##TimedWaitSlow(pthread_cond_t* condition, pthread_mutex_t* mutex, \
                                                               const timespec* deadline) {                        \
    return WaitAndRecord(condition, mutex, HOLDFAST_CALLER(), ETIMEDOUT,                                          \
                         [=] { return real.pthread_cond_timedwait##target(condition, mutex, deadline); });        \
  }                                                                                                               \
  extern "C" HOLDFAST_EXPORT int exported##wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {              \
    if (UNLIKELY(!Ready())) return kTooEarly;                                                                     \
    return UnlessLittleStack<exported##WaitSlow, &Real::pthread_cond_wait##target>(condition, mutex);             \
  }                                                                                                               \
  extern "C" HOLDFAST_EXPORT int exported##timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,           \
                                                     const timespec* deadline) {                                  \
    if (UNLIKELY(!Ready())) return kTooEarly;                                                                     \
    return UnlessLittleStack<exported##TimedWaitSlow, &Real::pthread_cond_timedwait##target>(condition, mutex,    \
                                                                                             deadline);           \
  }
HOLDFAST_CONDITION(pthread_cond_, )
#if HOLDFAST_HAS_OLDER_CONDITIONS
HOLDFAST_CONDITION(holdfast_2_2_5_cond_, _2_2_5)
asm(".symver holdfast_2_2_5_cond_signal,pthread_cond_signal@" HOLDFAST_GLIBC_2_2_5 ",remove");
asm(".symver holdfast_2_2_5_cond_broadcast,pthread_cond_broadcast@" HOLDFAST_GLIBC_2_2_5 ",remove");
asm(".symver holdfast_2_2_5_cond_wait,pthread_cond_wait@" HOLDFAST_GLIBC_2_2_5 ",remove");
asm(".symver holdfast_2_2_5_cond_timedwait,pthread_cond_timedwait@" HOLDFAST_GLIBC_2_2_5 ",remove");
#endif

// Functions with versions that behave alike: `name` and `older`, which is exported as name@version.
#define HOLDFAST_BOTH(older, name, version, parameters, arguments, condition, mutex, timed_out)                \
  static __attribute__((noinline)) int name##Slow parameters {                                                 \
    return WaitAndRecord(condition, mutex, HOLDFAST_CALLER(), timed_out, [=] { return real.name arguments; }); \
  }                                                                                                            \
  extern "C" HOLDFAST_EXPORT int name parameters {                                                             \
    if (UNLIKELY(!Ready())) return kTooEarly;                                                                  \
    return UnlessLittleStack<name##Slow, &Real::name> arguments;                                               \
  }                                                                                                            \
  extern "C" HOLDFAST_EXPORT int older parameters {                                                            \
    if (UNLIKELY(!Ready())) return kTooEarly;                                                                  \
    return UnlessLittleStack<name##Slow, &Real::name> arguments;                                               \
  }                                                                                                            \
  asm(".symver " #older "," #name "@" version ",remove")
HOLDFAST_BOTH(holdfast_cond_clockwait_2_30, pthread_cond_clockwait, "GLIBC_2.30",
              (pthread_cond_t * condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline),
              (condition, mutex, clock, deadline), condition, mutex, ETIMEDOUT);
HOLDFAST_BOTH(holdfast_cnd_wait_2_28, cnd_wait, "GLIBC_2.28", (cnd_t * condition, mtx_t* mutex), (condition, mutex),
              condition, Inside(mutex), thrd_timedout);
HOLDFAST_BOTH(holdfast_cnd_timedwait_2_28, cnd_timedwait, "GLIBC_2.28",
              (cnd_t * condition, mtx_t* mutex, const timespec* deadline), (condition, mutex, deadline), condition,
              Inside(mutex), thrd_timedout);

#define HOLDFAST_SIGNAL(older, name, all)                                            \
  extern "C" HOLDFAST_EXPORT int name(cnd_t* condition) {                            \
    if (UNLIKELY(!Ready())) return kTooEarly;                                        \
    if (NoLockWatched<kWokenTable>()) return real.name(condition);                   \
    return SignalAndRecord(condition, all, [=] { return real.name(condition); });    \
  }                                                                                  \
  extern "C" HOLDFAST_EXPORT int older(cnd_t* condition) { return name(condition); } \
  asm(".symver " #older "," #name "@GLIBC_2.28,remove")
HOLDFAST_SIGNAL(holdfast_cnd_signal_2_28, cnd_signal, false);
HOLDFAST_SIGNAL(holdfast_cnd_broadcast_2_28, cnd_broadcast, true);
