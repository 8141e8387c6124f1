// Waits without a holder: semaphores, barriers, pthread_once, joining threads. Only the waiter's side is recorded. Each
// function first checks whether it will wait at all.
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>

#include "interpose/base/old_version.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/locks/cancellation.h"
#include "interpose/locks/deadline.h"
#include "interpose/locks/straight_on.h"
#include "sampler/contract/lock_words.h"
#include "sampler/process/process.h"
#include "sampler/record/waits.h"

namespace holdfast {
namespace {

const auto got_it = [](int result) { return result == 0; };

// ---- Semaphores ----

// The low half of the first word is the value, since glibc 2.1 on 64-bit machines. musl sets the highest bit while a
// thread waits, and perhaps longer; all bits are 0 with a waiter.
inline bool LooksFree(const sem_t* semaphore) {
  return __atomic_load_n(reinterpret_cast<const int32_t*>(semaphore), __ATOMIC_RELAXED) > 0;
}
inline bool HasCount(const sem_t* semaphore) {
  const uint32_t word = __atomic_load_n(reinterpret_cast<const uint32_t*>(semaphore), __ATOMIC_RELAXED);
  return word != UINT32_MAX && (word & INT32_MAX) != 0;
}

// Before the wait: an invalid deadline, or a clock that cannot be used.
const auto is_refused = [](int result) { return result != 0 && errno == EINVAL; };

HOLDFAST_COLD int SemWaitSlow(sem_t* semaphore) {
  if (!Ready()) return kTooEarly;
  if (HasCount(semaphore)) return real.sem_wait(semaphore);
  return WaitWhole(
      HOLDFAST_CALLER(), semaphore, WaitKind::kSemaphore, WaitStyle::kWhole, [=] { return real.sem_wait(semaphore); },
      got_it);
}
HOLDFAST_COLD int SemTimedWaitSlow(sem_t* semaphore, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  if (HasCount(semaphore)) return real.sem_timedwait(semaphore, deadline);
  return WaitWhole(
      HOLDFAST_CALLER(), semaphore, WaitKind::kSemaphore, WaitStyle::kWhole,
      [=] { return real.sem_timedwait(semaphore, deadline); }, got_it, is_refused);
}
HOLDFAST_COLD int SemClockWaitSlow(sem_t* semaphore, clockid_t clock, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  if (HasCount(semaphore)) return real.sem_clockwait(semaphore, clock, deadline);
  return WaitWhole(
      HOLDFAST_CALLER(), semaphore, WaitKind::kSemaphore, WaitStyle::kWhole,
      [=] { return real.sem_clockwait(semaphore, clock, deadline); }, got_it, is_refused);
}

// ---- Barriers ----

// The round is on the stack of the thread that came first.
bool IsLastOnMusl(const MuslBarrier& barrier) {
  if (barrier.others == 0) return true;
  const uint32_t* round = __atomic_load_n(&barrier.round, __ATOMIC_RELAXED);
  if (round == nullptr || barrier.others > INT32_MAX) return false;
  return barrier.others == 1 || (CanRead(round) && __atomic_load_n(round, __ATOMIC_RELAXED) + 1 == barrier.others);
}

// glibc's barrier (since 2.25): how many came, how many had come when this round began, how many it needs. The last one
// to come does not wait. A wrong hint counts one wait too many or too few, no more.
inline bool IsLastToCome(const pthread_barrier_t* barrier) {
  if (UNLIKELY(process.libc == Libc::kMusl)) return IsLastOnMusl(*reinterpret_cast<const MuslBarrier*>(barrier));
  const auto* words = reinterpret_cast<const uint32_t*>(barrier);
  const uint32_t came = __atomic_load_n(&words[0], __ATOMIC_RELAXED),
                 before = __atomic_load_n(&words[1], __ATOMIC_RELAXED);
  return came - before + 1 == words[2];
}

__attribute__((noinline)) int BarrierWait(pthread_barrier_t* barrier) {
  return WaitWhole(
      HOLDFAST_CALLER(), barrier, WaitKind::kBarrier, WaitStyle::kRare,
      [=] { return real.pthread_barrier_wait(barrier); },
      [](int result) { return result == 0 || result == PTHREAD_BARRIER_SERIAL_THREAD; });
}

// ---- Once ----

// 0 before, 2 after; odd while a thread runs the function.
inline bool SomebodyIsAtIt(const int* control) { return (__atomic_load_n(control, __ATOMIC_ACQUIRE) & 3) == 1; }

// The value that libc stores in a control while a thread runs the function: another number after each fork. The thread
// that ran it in the parent does not exist in a forked child, where libc runs `function` at once. Found by reading our
// own control during a call; 0 while another thread is doing that.
constinit std::atomic<const int*> probed{nullptr};
constinit int own_generation = 0;
int OwnGeneration() {
  pthread_once_t control = PTHREAD_ONCE_INIT;
  const int* nobody = nullptr;
  if (!probed.compare_exchange_strong(nobody, &control, std::memory_order_acquire)) return 0;
  real.pthread_once(&control,
                    [] { own_generation = __atomic_load_n(probed.load(std::memory_order_relaxed), __ATOMIC_RELAXED); });
  const int found = own_generation;
  probed.store(nullptr, std::memory_order_release);
  return found;
}
bool LeftByParent(const int* control) {
  const int found = __atomic_load_n(control, __ATOMIC_ACQUIRE), own = OwnGeneration();
  return own != 0 && (found & 3) == 1 && found != own;
}

// Registers no cleanup: pthread_once is no cancellation point, and if the other thread gave up, `function` runs in here
// and may throw through us. The wait then counts as left by a jump.
template <typename Call>
inline int OnceAndRecord(int* control, void (*function)(), const CallerRegisters& caller, Call call) {
  if (!Ready()) {
    if (*control == 0) function();
    *control = 2;
    return 0;
  }
  if (!SomebodyIsAtIt(control) || LeftByParent(control)) return call();
  LockWait wait;
  BeginWait(caller, control, WaitKind::kOnce, WaitStyle::kRare, &wait);
  EnterWait(false, &wait);
  const int result = call();
  EndWait(&wait, result == 0);
  return result;
}
HOLDFAST_COLD int OnceSlow(pthread_once_t* control, void (*function)()) {
  return OnceAndRecord(control, function, HOLDFAST_CALLER(), [=] { return real.pthread_once(control, function); });
}
HOLDFAST_COLD void CallOnceSlow(once_flag* flag, void (*function)()) {
  OnceAndRecord(reinterpret_cast<int*>(flag), function, HOLDFAST_CALLER(),
                [=] { return real.call_once(flag, function), 0; });
}

// ---- Join ----

// libc may refuse others, such as some clocks, without looking at the thread.
inline bool IsPlain(const timespec* deadline) { return deadline == nullptr || IsTime(deadline); }

// Joins a thread that has ended already: no wait. Otherwise EBUSY. pthread_timedjoin_np would do the same, but that of
// glibc before 2.28 calls gettimeofday with a misaligned stack, which crashes if that name is bound lazily.
int JoinIfEnded(pthread_t thread, void** value) { return real.pthread_tryjoin_np(thread, value); }

// Refused at once, such as joining oneself or a detached thread.
const auto is_refused_join = [](int result) { return result != 0 && result != ETIMEDOUT; };

template <typename Join>
inline int JoinAndRecord(pthread_t thread, void** value, const CallerRegisters& caller, Join join) {
  if (const int tried = JoinIfEnded(thread, value); tried != EBUSY) return tried;
  return WaitWhole(caller, nullptr, WaitKind::kJoin, WaitStyle::kRare, join, got_it, is_refused_join);
}

__attribute__((noinline)) int Join(pthread_t thread, void** value) {
  return JoinAndRecord(thread, value, HOLDFAST_CALLER(), [=] { return real.pthread_join(thread, value); });
}
__attribute__((noinline)) int TimedJoin(pthread_t thread, void** value, const timespec* deadline) {
  const auto join = [=] { return real.pthread_timedjoin_np(thread, value, deadline); };
  if (!IsPlain(deadline)) return join();
  return JoinAndRecord(thread, value, HOLDFAST_CALLER(), join);
}
__attribute__((noinline)) int ClockJoin(pthread_t thread, void** value, clockid_t clock, const timespec* deadline) {
  const auto join = [=] { return real.pthread_clockjoin_np(thread, value, clock, deadline); };
  if (!IsClockToWaitBy(clock) || !IsPlain(deadline)) return join();
  return JoinAndRecord(thread, value, HOLDFAST_CALLER(), join);
}
// The thread's result is an int here. How it is read depends on the joining function, so it cannot be tried in advance.
__attribute__((noinline)) int C11Join(thrd_t thread, int* value) {
  void* pointer = nullptr;
  const int tried = JoinIfEnded(thread, &pointer);
  if (tried == 0) {
    if (value != nullptr) *value = static_cast<int>(reinterpret_cast<uintptr_t>(pointer));
    return thrd_success;
  }
  if (tried != EBUSY) return thrd_error;
  return WaitWhole(
      HOLDFAST_CALLER(), nullptr, WaitKind::kJoin, WaitStyle::kRare, [=] { return real.thrd_join(thread, value); },
      got_it, is_refused_join);
}

}  // namespace
}  // namespace holdfast

using namespace holdfast;

extern "C" {

HOLDFAST_EXPORT int sem_wait(sem_t* semaphore) {
  if (LIKELY(LooksFree(semaphore) && hot_size_limit != 0)) return real.sem_wait(semaphore);
  return UnlessLittleStack<SemWaitSlow, &Real::sem_wait>(semaphore);
}
HOLDFAST_EXPORT int sem_timedwait(sem_t* semaphore, const timespec* deadline) {
  if (LIKELY(LooksFree(semaphore) && hot_size_limit != 0)) return real.sem_timedwait(semaphore, deadline);
  return UnlessLittleStack<SemTimedWaitSlow, &Real::sem_timedwait>(semaphore, deadline);
}
HOLDFAST_EXPORT int sem_clockwait(sem_t* semaphore, clockid_t clock, const timespec* deadline) {
  if (LIKELY(LooksFree(semaphore) && hot_size_limit != 0)) return real.sem_clockwait(semaphore, clock, deadline);
  return UnlessLittleStack<SemClockWaitSlow, &Real::sem_clockwait>(semaphore, clock, deadline);
}

HOLDFAST_EXPORT int pthread_barrier_wait(pthread_barrier_t* barrier) noexcept {
  if (!Ready()) return kTooEarly;
  if (passes_through || IsLastToCome(barrier)) return real.pthread_barrier_wait(barrier);
  return UnlessLittleStack<BarrierWait, &Real::pthread_barrier_wait>(barrier);
}

HOLDFAST_EXPORT int pthread_once(pthread_once_t* control, void (*function)()) {
  if (LIKELY((passes_through || !SomebodyIsAtIt(control)) && hot_size_limit != 0))
    return real.pthread_once(control, function);
  return UnlessLittleStack<OnceSlow, &Real::pthread_once>(control, function);
}
HOLDFAST_EXPORT void call_once(once_flag* flag, void (*function)()) {
  if (LIKELY((passes_through || !SomebodyIsAtIt(reinterpret_cast<int*>(flag))) && hot_size_limit != 0))
    return real.call_once(flag, function);
  UnlessLittleStack<CallOnceSlow, &Real::call_once>(flag, function);
}

HOLDFAST_EXPORT int pthread_join(pthread_t thread, void** value) {
  if (!Ready()) return kTooEarly;
  return UnlessLittleStack<Join, &Real::pthread_join>(thread, value);
}
HOLDFAST_EXPORT int pthread_timedjoin_np(pthread_t thread, void** value, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  return UnlessLittleStack<TimedJoin, &Real::pthread_timedjoin_np>(thread, value, deadline);
}
HOLDFAST_EXPORT int pthread_clockjoin_np(pthread_t thread, void** value, clockid_t clock, const timespec* deadline) {
  if (!Ready()) return kTooEarly;
  return UnlessLittleStack<ClockJoin, &Real::pthread_clockjoin_np>(thread, value, clock, deadline);
}
HOLDFAST_EXPORT int thrd_join(thrd_t thread, int* value) {
  if (!Ready()) return kTooEarly;
  return UnlessLittleStack<C11Join, &Real::thrd_join>(thread, value);
}

}  // extern "C"

#define P(...) (__VA_ARGS__)
HOLDFAST_OLD_VERSION(int, sem_wait, 2_2_5, HOLDFAST_GLIBC_2_2_5, P(sem_t* semaphore), P(semaphore));
HOLDFAST_OLD_VERSION(int, sem_timedwait, 2_2_5, HOLDFAST_GLIBC_2_2_5, P(sem_t* semaphore, const timespec* deadline),
                     P(semaphore, deadline));
HOLDFAST_OLD_VERSION(int, sem_clockwait, 2_30, "GLIBC_2.30",
                     P(sem_t* semaphore, clockid_t clock, const timespec* deadline), P(semaphore, clock, deadline));
HOLDFAST_OLD_VERSION(int, pthread_barrier_wait, 2_2_5, HOLDFAST_GLIBC_2_2_5, P(pthread_barrier_t* barrier), P(barrier));
HOLDFAST_OLD_VERSION(int, pthread_once, 2_2_5, HOLDFAST_GLIBC_2_2_5, P(pthread_once_t* control, void (*function)()),
                     P(control, function));
HOLDFAST_OLD_VERSION(void, call_once, 2_28, "GLIBC_2.28", P(once_flag* flag, void (*function)()), P(flag, function));
HOLDFAST_OLD_VERSION(int, pthread_join, 2_2_5, HOLDFAST_GLIBC_2_2_5, P(pthread_t thread, void** value),
                     P(thread, value));
HOLDFAST_OLD_VERSION(int, pthread_timedjoin_np, 2_3_3, HOLDFAST_GLIBC_2_3_3,
                     P(pthread_t thread, void** value, const timespec* deadline), P(thread, value, deadline));
HOLDFAST_OLD_VERSION(int, pthread_clockjoin_np, 2_31, "GLIBC_2.31",
                     P(pthread_t thread, void** value, clockid_t clock, const timespec* deadline),
                     P(thread, value, clock, deadline));
HOLDFAST_OLD_VERSION(int, thrd_join, 2_28, "GLIBC_2.28", P(thrd_t thread, int* value), P(thread, value));
