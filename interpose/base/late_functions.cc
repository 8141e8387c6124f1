#include "interpose/base/late_functions.h"

#include <errno.h>
#include <limits.h>

#include <iterator>
#include <string_view>
#include <type_traits>

#include "interpose/base/defined_names.h"
#include "interpose/base/module_scope.h"
#include "sampler/contract/syscalls.h"

extern "C" {
HOLDFAST_HIDDEN extern const char __ehdr_start[];
HOLDFAST_HIDDEN extern const char _end[];
}

namespace holdfast {
namespace {

// ---- What a function does where libc lacks it ----

// The same moment by CLOCK_REALTIME.
timespec InRealTime(clockid_t clock, const timespec* deadline) {
  constexpr long kSecond = 1'000'000'000;
  if (clock == CLOCK_REALTIME || deadline->tv_nsec < 0 || deadline->tv_nsec >= kSecond) return *deadline;
  timespec now{}, real_now{};
  RawSyscall(SYS_clock_gettime, clock, &now);
  RawSyscall(SYS_clock_gettime, CLOCK_REALTIME, &real_now);
  timespec moment{};
  if (__builtin_add_overflow(deadline->tv_sec, real_now.tv_sec - now.tv_sec, &moment.tv_sec)) {
    moment.tv_sec = LONG_MAX;
    return moment;
  }
  moment.tv_nsec = deadline->tv_nsec + real_now.tv_nsec - now.tv_nsec;
  while (moment.tv_nsec < 0) moment.tv_nsec += kSecond, --moment.tv_sec;
  while (moment.tv_nsec >= kSecond) moment.tv_nsec -= kSecond, ++moment.tv_sec;
  return moment;
}

template <typename Object>
int WithClock(int (*timed)(Object*, const timespec*), Object* object, clockid_t clock, const timespec* deadline) {
  const timespec moment = InRealTime(clock, deadline);
  return timed(object, &moment);
}

int WaitWithClock(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  const timespec moment = InRealTime(clock, deadline);
  return real.pthread_cond_timedwait(condition, mutex, &moment);
}

int JoinWithClock(pthread_t thread, void** result, clockid_t clock, const timespec* deadline) {
  if (deadline == nullptr) return real.pthread_join(thread, result);
  const timespec moment = InRealTime(clock, deadline);
  return real.pthread_timedjoin_np(thread, result, &moment);
}

// Without libpthread there is one thread.
int RunOnce(int* once, void (*function)()) {
  if (*once != 0) return 0;
  *once = 2;  // as glibc marks it
  function();
  return 0;
}

void* AllocateArray(void* block, size_t count, size_t bytes) {
  size_t total = 0;
  if (!__builtin_mul_overflow(count, bytes, &total)) return real.realloc(block, total);
  errno = ENOMEM;
  return nullptr;
}

pid_t ForkDirectly() {
  const long child = RawSyscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (!SyscallFailed(child)) return static_cast<pid_t>(child);
  errno = static_cast<int>(-child);
  return -1;
}

// Destructors of a thread's objects, newest first, in a libc without __cxa_thread_atexit_impl (glibc before 2.18). As
// in other substitutes for that function, those of the main thread do not run.
struct AtThreadEnd {
  void (*destructor)(void*);
  void* object;
  AtThreadEnd* next;
};
constinit unsigned end_key = 0;
constinit bool has_end_key = false;
using CreateKey = int (*)(unsigned*, void (*)(void*));
using GetValue = void* (*)(unsigned);
using SetValue = int (*)(unsigned, const void*);
constinit GetValue get_value = nullptr;
constinit SetValue set_value = nullptr;

void RunAtThreadEnd(void* first) {
  for (auto* entry = static_cast<AtThreadEnd*>(first); entry != nullptr;) {
    AtThreadEnd* const next = entry->next;
    entry->destructor(entry->object);
    real.free(entry);
    entry = next;
  }
}

bool MakeEndKey() {
  static constexpr SymbolName kNames[] = {"pthread_key_create", "pthread_getspecific", "pthread_setspecific"};
  void* functions[std::size(kNames)];
  FindInScope(nullptr, kNames, std::size(kNames), functions);
  if (functions[0] == nullptr || functions[1] == nullptr || functions[2] == nullptr) return false;
  get_value = reinterpret_cast<GetValue>(functions[1]);
  set_value = reinterpret_cast<SetValue>(functions[2]);
  return reinterpret_cast<CreateKey>(functions[0])(&end_key, RunAtThreadEnd) == 0;
}

int AddAtThreadEnd(void (*destructor)(void*), void* object) {
  static constinit int state = 0;  // 1: one thread makes the key
  int before = 0;
  if (__atomic_compare_exchange_n(&state, &before, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    has_end_key = MakeEndKey();
    __atomic_store_n(&state, has_end_key ? 2 : 0, __ATOMIC_RELEASE);
  }
  if (!AwaitBounded(1000, [] { return __atomic_load_n(&state, __ATOMIC_ACQUIRE) != 1; }) || !has_end_key) return 0;
  auto* entry = static_cast<AtThreadEnd*>(real.malloc(sizeof(AtThreadEnd)));
  if (entry == nullptr) return -1;
  *entry = {destructor, object, static_cast<AtThreadEnd*>(get_value(end_key))};
  return set_value(end_key, entry);
}

template <int kNumber, typename Result, typename... Parameters>
Result Without(Parameters... given) {
  constexpr std::string_view kName = kRealNames[kNumber].name.text;
  if constexpr (kName == "pthread_mutex_clocklock") {
    return WithClock(real.pthread_mutex_timedlock, given...);
  } else if constexpr (kName == "pthread_rwlock_clockrdlock") {
    return WithClock(real.pthread_rwlock_timedrdlock, given...);
  } else if constexpr (kName == "pthread_rwlock_clockwrlock") {
    return WithClock(real.pthread_rwlock_timedwrlock, given...);
  } else if constexpr (kName == "sem_clockwait") {
    return WithClock(real.sem_timedwait, given...);
  } else if constexpr (kName == "pthread_cond_clockwait") {
    return WaitWithClock(given...);
  } else if constexpr (kName == "pthread_clockjoin_np") {
    return JoinWithClock(given...);
  } else if constexpr (kName == "pthread_once") {
    return RunOnce(given...);
  } else if constexpr (kName == "reallocarray") {
    return AllocateArray(given...);
  } else if constexpr (kName == "_Fork") {
    return ForkDirectly();
  } else if constexpr (kName == "__cxa_thread_atexit_impl") {
    const auto add = [](auto destructor, void* object, void*) { return AddAtThreadEnd(destructor, object); };
    return add(given...);
  } else if constexpr (kName == "quick_exit") {
    return real.quick_exit_2_10(given...);
  } else if constexpr (kName == "pthread_create" || kName == "pthread_attr_getstack" ||
                       kName == "pthread_attr_getstacksize") {
    return EAGAIN;
  } else if constexpr (kName.starts_with("thrd_") && !std::is_void_v<Result>) {
    return thrd_error;
  } else if constexpr (kName.ends_with("join") || kName.ends_with("join_np") || kName == "pthread_setname_np") {
    return ENOSYS;
  } else if constexpr (std::is_pointer_v<Result>) {
    errno = ENOMEM;
    return nullptr;
  } else if constexpr (!std::is_void_v<Result>) {
    return Result{};  // as glibc's stubs in a program without libpthread
  }
}

// The function if it has been loaded meanwhile, which `real` leads to from now on; else `without`.
HOLDFAST_COLD void* LateOr(int number, void* without) {
  void* found = nullptr;
  FindInScope(nullptr, &kRealNames[number].name, 1, &found);
  // With threads, all of libc's functions are there.
  if (found == nullptr && IsFound(reinterpret_cast<const void*>(real.pthread_create))) found = without;
  if (found != nullptr) __atomic_store_n(RealFunction(number), found, __ATOMIC_RELAXED);
  return found != nullptr ? found : without;
}

template <int kNumber, typename Function>
struct Late {};  // of functions with any number of arguments: they are in every libc
template <int kNumber, typename Result, typename... Parameters>
struct Late<kNumber, Result (*)(Parameters...)> {
  static Result Call(Parameters... given) {
    auto* without = &Without<kNumber, Result, Parameters...>;
    return reinterpret_cast<Result (*)(Parameters...)>(LateOr(kNumber, reinterpret_cast<void*>(without)))(given...);
  }
};

template <int kNumber, typename Function>
void Substitute(Function* function) {
  if constexpr (requires { &Late<kNumber, Function>::Call; }) {
    if (*function == nullptr) *function = &Late<kNumber, Function>::Call;
  }
}

}  // namespace

void SubstituteMissing() {
  constexpr int kBefore = __COUNTER__;
#define HOLDFAST_WRAP(result, name, parameters) Substitute<__COUNTER__ - kBefore - 1>(&real.name);
#define HOLDFAST_WRAP_VERSION(result, name, suffix, version, parameters) \
  Substitute<__COUNTER__ - kBefore - 1>(&real.name##suffix);
#include "interpose/base/wrapped.inc"
#define HOLDFAST_USE(result, name, parameters) Substitute<__COUNTER__ - kBefore - 1>(&real.name);
#include "interpose/base/used.inc"
#undef HOLDFAST_USE
#undef HOLDFAST_WRAP
}

bool IsFound(const void* function) { return function != nullptr && (function < __ehdr_start || function >= _end); }

}  // namespace holdfast
