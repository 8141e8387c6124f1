#include "interpose/base/late_functions.h"

#include <errno.h>
#include <limits.h>

#include <atomic>
#include <string_view>
#include <type_traits>

#include "interpose/base/defined_functions.h"
#include "interpose/base/defined_names.h"
#include "interpose/base/late_search.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/syscalls.h"

extern "C" {
HOLDFAST_HIDDEN extern const char __ehdr_start[];
HOLDFAST_HIDDEN extern const char _end[];
}

namespace holdfast {
namespace {

// ---- What a function does where libc lacks it ----

// The same moment by another clock.
timespec InClock(clockid_t to, clockid_t from, const timespec* deadline) {
  constexpr long kSecond = 1'000'000'000;
  if (from == to || deadline->tv_nsec < 0 || deadline->tv_nsec >= kSecond) return *deadline;
  timespec now{}, other_now{};
  RawSyscall(SYS_clock_gettime, from, &now);
  RawSyscall(SYS_clock_gettime, to, &other_now);
  timespec moment{};
  if (__builtin_add_overflow(deadline->tv_sec, other_now.tv_sec - now.tv_sec, &moment.tv_sec)) {
    moment.tv_sec = LONG_MAX;
    return moment;
  }
  moment.tv_nsec = deadline->tv_nsec + other_now.tv_nsec - now.tv_nsec;
  while (moment.tv_nsec < 0) moment.tv_nsec += kSecond, --moment.tv_sec;
  while (moment.tv_nsec >= kSecond) moment.tv_nsec -= kSecond, ++moment.tv_sec;
  return moment;
}

template <typename Object>
int WithClock(int (*timed)(Object*, const timespec*), Object* object, clockid_t clock, const timespec* deadline) {
  const timespec moment = InClock(CLOCK_REALTIME, clock, deadline);
  return timed(object, &moment);
}

// The place where a libc without pthread_cond_clockwait keeps the clock of a condition (pthread_condattr_setclock).
enum class ConditionWords : uint8_t { kGlibc2_25, kOldGlibc, kMusl };
constinit ConditionWords condition_words = ConditionWords::kGlibc2_25;

clockid_t ClockOf(const pthread_cond_t* condition) {
  const auto* words = reinterpret_cast<const uint32_t*>(condition);
  switch (condition_words) {
    case ConditionWords::kMusl:
      return static_cast<clockid_t>(words[4]);
    case ConditionWords::kOldGlibc:  // __nwaiters
      return (words[10] & 1) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    default:  // __wrefs
      return (words[9] & 2) != 0 ? CLOCK_MONOTONIC : CLOCK_REALTIME;
  }
}

void NoteConditionWords() {
  if (IsMusl()) {
    condition_words = ConditionWords::kMusl;
    return;
  }
  const link_map* libc = FirstThatDefines("gnu_get_libc_version");
  void* tell = libc != nullptr ? DefinedFunctions(libc).Find("gnu_get_libc_version", nullptr) : nullptr;
  if (tell == nullptr) return;
  // "2.17": the minor number has one or two digits.
  const char* version = reinterpret_cast<const char* (*)()>(tell)();
  const bool is_two = version[0] == '2' && version[1] == '.' && version[2] != '\0';
  const int minor = !is_two ? 0 : version[3] == '\0' ? version[2] - '0' : (version[2] - '0') * 10 + version[3] - '0';
  if (is_two && minor < 25) condition_words = ConditionWords::kOldGlibc;
}

int WaitWithClock(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* deadline) {
  const timespec moment = InClock(ClockOf(condition), clock, deadline);
  return real.pthread_cond_timedwait(condition, mutex, &moment);
}

int JoinWithClock(pthread_t thread, void** result, clockid_t clock, const timespec* deadline) {
  if (deadline == nullptr) return real.pthread_join(thread, result);
  const timespec moment = InClock(CLOCK_REALTIME, clock, deadline);
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

bool HasThreads() { return IsFound(reinterpret_cast<const void*>(real.pthread_create)); }

// Destructors of a thread's objects, newest first, in a libc without __cxa_thread_atexit_impl (musl, glibc before 2.18).
// The export of that name hides the way in which C++ runtimes do without it, so this is the same way: a key for a thread's
// end, a handler for that of the process.
struct AtThreadEnd {
  void (*destructor)(void*);
  void* object;
  AtThreadEnd* next;
};
using CreateKey = int (*)(unsigned*, void (*)(void*));
using AtExit = int (*)(void (*)(void*), void*, void*);
struct EndKey {
  void* (*get)(unsigned) = nullptr;
  int (*set)(unsigned, const void*) = nullptr;
  unsigned key = 0;
};
constinit EndKey end_key;
constinit std::atomic<bool> has_end_key{false};
// For the only thread, while there is no libpthread.
constinit AtThreadEnd* only_thread = nullptr;

extern "C" HOLDFAST_HIDDEN void* __dso_handle;

void RunAtThreadEnd(void* first) {
  for (auto* entry = static_cast<AtThreadEnd*>(first); entry != nullptr;) {
    AtThreadEnd* const next = entry->next;
    entry->destructor(entry->object);
    real.free(entry);
    entry = next;
  }
}

// A destructor may make further objects.
void RunAtProcessEnd(void*) {
  const bool has_key = has_end_key.load(std::memory_order_acquire);
  while (void* first = has_key ? end_key.get(end_key.key) : nullptr) {
    end_key.set(end_key.key, nullptr);
    RunAtThreadEnd(first);
  }
  while (AtThreadEnd* first = only_thread) {
    only_thread = nullptr;
    RunAtThreadEnd(first);
  }
}

void* LateFunction(const char* name) {
  void* found = nullptr;
  FindLateFunction(!HasThreads(), name, nullptr, &found);
  return found;
}

bool RegisterAtProcessEnd() {
  const auto add = reinterpret_cast<AtExit>(LateFunction("__cxa_atexit"));
  return add != nullptr && add(RunAtProcessEnd, nullptr, __dso_handle) == 0;
}

bool MakeEndKey() {
  const auto create = reinterpret_cast<CreateKey>(LateFunction("pthread_key_create"));
  end_key.get = reinterpret_cast<decltype(end_key.get)>(LateFunction("pthread_getspecific"));
  end_key.set = reinterpret_cast<decltype(end_key.set)>(LateFunction("pthread_setspecific"));
  if (create == nullptr || end_key.get == nullptr || end_key.set == nullptr) return false;
  return create(&end_key.key, RunAtThreadEnd) == 0;
}

// Makes it once, in whatever thread comes first. A failure, such as a dlclose in progress, is tried again next time.
class MadeOnce {
 public:
  template <typename Make>
  bool Done(Make make) {
    int before = kNotMade;
    if (state_.compare_exchange_strong(before, kMaking, std::memory_order_acquire))
      state_.store(make() ? kMade : kNotMade, std::memory_order_release);
    AwaitBounded(1000, [this] { return state_.load(std::memory_order_acquire) != kMaking; });
    return state_.load(std::memory_order_acquire) == kMade;
  }

 private:
  static constexpr int kNotMade = 0, kMaking = 1, kMade = 2;
  std::atomic<int> state_{kNotMade};
};
constinit MadeOnce registered, key_made;

int AddAtThreadEnd(void (*destructor)(void*), void* object) {
  const bool has_threads = HasThreads();
  if (!registered.Done(RegisterAtProcessEnd) || (has_threads && !key_made.Done(MakeEndKey))) return -1;
  if (has_threads) has_end_key.store(true, std::memory_order_release);
  auto* entry = static_cast<AtThreadEnd*>(real.malloc(sizeof(AtThreadEnd)));
  if (entry == nullptr) return -1;
  *entry = {destructor, object, has_threads ? static_cast<AtThreadEnd*>(end_key.get(end_key.key)) : only_thread};
  if (has_threads) return end_key.set(end_key.key, entry);
  only_thread = entry;
  return 0;
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
  } else if constexpr (kName == "call_once") {
    const auto run = [](once_flag* flag, void (*function)()) { RunOnce(reinterpret_cast<int*>(flag), function); };
    run(given...);
  } else if constexpr (kName == "reallocarray") {
    return AllocateArray(given...);
  } else if constexpr (kName == "_Fork") {
    return ForkDirectly();
  } else if constexpr (kName == "__cxa_thread_atexit_impl") {
    const auto add = [](auto destructor, void* object, void*) { return AddAtThreadEnd(destructor, object); };
    return add(given...);
  } else if constexpr (kName == "timer_create") {
    errno = ENOSYS;
    return -1;
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

constinit bool is_substituted[kRealFunctions] = {};

// Whoever has loaded one function has loaded them all. A later search might come during a dlclose.
void FindOthers() {
  for (int i = 0; i < kRealFunctions; ++i) {
    void* found = nullptr;
    if (!is_substituted[i] || !FindLateFunction(false, kRealNames[i].name, kRealNames[i].version, &found)) continue;
    if (found != nullptr) __atomic_store_n(RealFunction(i), found, __ATOMIC_RELAXED);
  }
}

// Returns the function if it has been loaded meanwhile, else `without`. What is certain is kept in `real`.
HOLDFAST_COLD void* LateOr(int number, void* without) {
  const RealName& wanted = kRealNames[number];
  void* found = nullptr;
  if (!FindLateFunction(!HasThreads(), wanted.name, wanted.version, &found)) return without;
  const bool is_loaded = found != nullptr;
  // With threads, all of libc's functions are there, but for those of librt.
  const bool may_come = std::string_view(wanted.name.text) == "timer_create";
  if (!is_loaded && !may_come && HasThreads()) found = without;
  if (found != nullptr) __atomic_store_n(RealFunction(number), found, __ATOMIC_RELAXED);
  if (is_loaded) FindOthers();
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
    if (*function != nullptr) return;
    *function = &Late<kNumber, Function>::Call;
    is_substituted[kNumber] = true;
  }
}

}  // namespace

void SubstituteMissing() {
  if (real.pthread_cond_clockwait == nullptr) NoteConditionWords();
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
