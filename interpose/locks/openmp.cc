#include "interpose/locks/openmp.h"

#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <string.h>

#include <atomic>
#include <initializer_list>

#include "interpose/base/defined_names.h"
#include "interpose/base/find_functions.h"
#include "interpose/base/import_entries.h"
#include "interpose/base/readiness.h"
#include "sampler/arch/processor.h"
#include "sampler/capture/little_stack.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/process/process.h"
#include "sampler/record/holds.h"
#include "sampler/record/waits.h"

namespace holdfast {
namespace {

enum Name : int {
#define HOLDFAST_OPENMP(name, wrapper) k_##name,
#define HOLDFAST_OPENMP_BARRIER(name, wrapper) k_##name,
#define HOLDFAST_OPENMP_TASK(name) k_##name,
#define HOLDFAST_OPENMP_REAL(name) k_##name,
#include "sampler/contract/openmp.inc"
#undef HOLDFAST_OPENMP
#undef HOLDFAST_OPENMP_BARRIER
#undef HOLDFAST_OPENMP_TASK
#undef HOLDFAST_OPENMP_REAL
  kNames
};

constexpr char kTexts[kNames][32] = {
#define HOLDFAST_OPENMP(name, wrapper) #name,
#define HOLDFAST_OPENMP_BARRIER(name, wrapper) #name,
#define HOLDFAST_OPENMP_TASK(name) #name,
#define HOLDFAST_OPENMP_REAL(name) #name,
#include "sampler/contract/openmp.inc"
#undef HOLDFAST_OPENMP
#undef HOLDFAST_OPENMP_BARRIER
#undef HOLDFAST_OPENMP_TASK
#undef HOLDFAST_OPENMP_REAL
};

constinit void* reals[kNames] = {};

template <int kName, typename Function>
Function* Real() {
  return reinterpret_cast<Function*>(reals[kName]);
}

bool MayRecord() { return !passes_through && Ready() && !LittleStackForWait(); }

// ---- Critical sections ----

// How many threads are in a section, or wait for it. Runtimes do not tell whether a section is taken, and threads often
// come to one at the same moment, after a barrier. Sections are static: a program has a few. A section without a slot
// is not watched.
struct Section {
  std::atomic<const void*> lock;
  std::atomic<uint32_t> inside;
};
constexpr uintptr_t kSections = 256, kTries = 8;
constinit Section sections[kSections] = {};
constinit std::atomic<bool> any_section{false};

Section* SectionOf(const void* lock) {
  const uintptr_t hash = reinterpret_cast<uintptr_t>(lock) * 0x9e3779b97f4a7c15 >> 40;
  for (uintptr_t i = 0; i < kTries; ++i) {
    Section& section = sections[(hash + i) % kSections];
    const void* owner = section.lock.load(std::memory_order_relaxed);
    if (LIKELY(owner == lock)) return &section;
    if (owner == nullptr && section.lock.compare_exchange_strong(owner, lock, std::memory_order_relaxed)) {
      any_section.store(true, std::memory_order_relaxed);
      return &section;
    }
    if (owner == lock) return &section;  // another thread was quicker
  }
  return nullptr;
}

template <typename Call>
inline void WaitForLock(const CallerRegisters& caller, const void* lock, Call call) {
  LockWait wait;
  BeginWait(caller, lock, WaitKind::kCustom, WaitStyle::kWhole, &wait);
  EnterWait(false, &wait);
  call();
  EndWait(&wait, true);
}

template <typename Call>
inline void EnterSection(const CallerRegisters& caller, const void* lock, Call call) {
  Section* section = SectionOf(lock);
  if (section == nullptr || section->inside.fetch_add(1, std::memory_order_relaxed) == 0 || !MayRecord()) return call();
  WaitForLock(caller, lock, call);
}

// Waiting up to the release is this holder's, and the next holder is late from then on.
template <typename Call>
inline void Release(const CallerRegisters& caller, const void* lock, Call call) {
  if (LIKELY(NoLockWatched()) || !MayRecord()) return call();
  if (!WatchedSlow(lock)) {
    call();
    if (!MayUnlockFast()) AfterUnlock(lock);
    return;
  }
  LockHold hold;
  BeginUnlock(lock, WaitKind::kCustom, true, &hold);
  call();
  EndUnlock(caller, true, &hold);
}

// Not below 0: a child of fork may leave a section that its parent has entered.
inline void CountOneLess(std::atomic<uint32_t>* inside) {
  uint32_t count = inside->load(std::memory_order_relaxed);
  while (count != 0 && !inside->compare_exchange_weak(count, count - 1, std::memory_order_relaxed)) {
  }
}

template <typename Call>
inline void LeaveSection(const CallerRegisters& caller, const void* lock, Call call) {
  // First: a thread that comes after the release finds nobody.
  if (Section* section = SectionOf(lock)) CountOneLess(&section->inside);
  Release(caller, lock, call);
}

// The sections without a name are one lock of the runtime's: it is recorded at the address of the function, which names it.
template <int kName>
void GnuCriticalStart() {
  EnterSection(HOLDFAST_CALLER(), reals[kName], [] { Real<kName, void()>()(); });
}
template <int kName>
void GnuCriticalEnd() {
  constexpr int kStart = kName == k_GOMP_atomic_end ? k_GOMP_atomic_start : k_GOMP_critical_start;
  LeaveSection(HOLDFAST_CALLER(), reals[kStart], [] { Real<kName, void()>()(); });
}
template <int kName>
void GnuNamedStart(void** lock) {
  EnterSection(HOLDFAST_CALLER(), lock, [=] { Real<kName, void(void**)>()(lock); });
}
template <int kName>
void GnuNamedEnd(void** lock) {
  LeaveSection(HOLDFAST_CALLER(), lock, [=] { Real<kName, void(void**)>()(lock); });
}
template <int kName>
void LlvmCritical(void* place, int thread, void* lock) {
  EnterSection(HOLDFAST_CALLER(), lock, [=] { Real<kName, void(void*, int, void*)>()(place, thread, lock); });
}
template <int kName>
void LlvmCriticalWithHint(void* place, int thread, void* lock, uint32_t hint) {
  EnterSection(HOLDFAST_CALLER(), lock,
               [=] { Real<kName, void(void*, int, void*, uint32_t)>()(place, thread, lock, hint); });
}
template <int kName>
void LlvmEndCritical(void* place, int thread, void* lock) {
  LeaveSection(HOLDFAST_CALLER(), lock, [=] { Real<kName, void(void*, int, void*)>()(place, thread, lock); });
}

// ---- Locks ----

constexpr int TestOf(int set) {
  return set == k_omp_set_lock        ? k_omp_test_lock
         : set == k_omp_set_nest_lock ? k_omp_test_nest_lock
         : set == k_omp_set_lock_     ? k_omp_test_lock_
                                      : k_omp_test_nest_lock_;
}

template <int kName>
void SetLock(void* lock) {
  const auto set = [=] { Real<kName, void(void*)>()(lock); };
  if (reals[TestOf(kName)] == nullptr || !MayRecord()) return set();
  if (Real<TestOf(kName), int(void*)>()(lock) != 0) return;
  WaitForLock(HOLDFAST_CALLER(), lock, set);
}
template <int kName>
void UnsetLock(void* lock) {
  Release(HOLDFAST_CALLER(), lock, [=] { Real<kName, void(void*)>()(lock); });
}
// Only the last unset of a holder releases the lock. The holder's test succeeds, and returns how often the lock is set.
template <int kName>
void UnsetNestLock(void* lock) {
  constexpr int kTest = kName == k_omp_unset_nest_lock ? k_omp_test_nest_lock : k_omp_test_nest_lock_;
  const auto unset = [=] { Real<kName, void(void*)>()(lock); };
  if (LIKELY(NoLockWatched()) || reals[kTest] == nullptr || !MayRecord()) return unset();
  const int count = Real<kTest, int(void*)>()(lock);
  if (count > 0) unset();
  if (count > 2) return unset();
  Release(HOLDFAST_CALLER(), lock, unset);
}

// ---- Turns and barriers ----

// A shorter call has not waited.
constexpr int64_t kNoWaitNs = 2'000;

// Threads that have come to a barrier, of all teams. The last of its team does not wait: nobody comes after it, except
// if another team has a barrier just then, or a thread that it wakes is quick to come to the next.
constinit std::atomic<uint64_t> arrivals = 0;

template <typename Call>
inline auto WaitAtBarrier(const CallerRegisters& caller, const void* what, Call call) {
  const uint64_t own = arrivals.fetch_add(1, std::memory_order_relaxed) + 1;
  if (!MayRecord()) return call();
  LockWait wait;
  BeginWait(caller, what, WaitKind::kBarrier, WaitStyle::kWhole, &wait);
  CoverInnerWaits(wait);  // LLVM's threads sleep by pthread_cond_wait
  EnterWait(false, &wait);
  if (!wait.active()) return call();
  const bool was_early = arrivals.load(std::memory_order_relaxed) != own;
  const int64_t called_ns = MonotonicNs();  // after the capture, which is not a wait
  const auto result = call();
  const bool others_came = arrivals.load(std::memory_order_relaxed) != own;
  if (was_early || (others_came && MonotonicNs() - called_ns >= kNoWaitNs)) {
    EndWait(&wait, true);
  } else {
    DropWait(&wait);
  }
  return result;
}

template <typename Call>
inline void WaitForTurn(const CallerRegisters& caller, const void* what, Call call) {
  if (!MayRecord()) return call();
  LockWait wait;
  BeginWait(caller, what, WaitKind::kCustom, WaitStyle::kWhole, &wait);
  EnterWait(false, &wait);
  if (!wait.active()) return call();
  const int64_t called_ns = MonotonicNs();
  call();
  if (MonotonicNs() - called_ns >= kNoWaitNs) {
    EndWait(&wait, true);
  } else {
    DropWait(&wait);
  }
}

template <int kName>
void GnuOrderedStart() {
  WaitForTurn(HOLDFAST_CALLER(), reals[kName], [] { Real<kName, void()>()(); });
}
template <int kName>
void GnuOrderedEnd() {
  Release(HOLDFAST_CALLER(), reals[k_GOMP_ordered_start], [] { Real<kName, void()>()(); });
}
template <int kName>
void GnuBarrier() {
  WaitAtBarrier(HOLDFAST_CALLER(), reals[kName], [] { return Real<kName, void()>()(), 0; });
}
template <int kName>
bool GnuBarrierCancel() {
  return WaitAtBarrier(HOLDFAST_CALLER(), reals[kName], [] { return Real<kName, bool()>()(); });
}
template <int kName>
void LlvmOrdered(void* place, int thread) {
  WaitForTurn(HOLDFAST_CALLER(), reals[kName], [=] { Real<kName, void(void*, int)>()(place, thread); });
}
template <int kName>
void LlvmEndOrdered(void* place, int thread) {
  Release(HOLDFAST_CALLER(), reals[k___kmpc_ordered], [=] { Real<kName, void(void*, int)>()(place, thread); });
}
template <int kName>
void LlvmBarrier(void* place, int thread) {
  WaitAtBarrier(HOLDFAST_CALLER(), reals[kName], [=] { return Real<kName, void(void*, int)>()(place, thread), 0; });
}
template <int kName>
int LlvmCancelBarrier(void* place, int thread) {
  return WaitAtBarrier(HOLDFAST_CALLER(), reals[kName], [=] { return Real<kName, int(void*, int)>()(place, thread); });
}

// ---- Binding ----

// Not constinit: a reinterpret_cast is no constant expression, and g++ 14 enforces that. The linker initializes the array
// all the same.
void* const wrappers[kNames] = {
#define HOLDFAST_OPENMP(name, wrapper) reinterpret_cast<void*>(&wrapper<k_##name>),
#define HOLDFAST_OPENMP_BARRIER(name, wrapper) reinterpret_cast<void*>(&wrapper<k_##name>),
#define HOLDFAST_OPENMP_TASK(name) nullptr,
#define HOLDFAST_OPENMP_REAL(name) nullptr,
#include "sampler/contract/openmp.inc"
#undef HOLDFAST_OPENMP
#undef HOLDFAST_OPENMP_BARRIER
#undef HOLDFAST_OPENMP_TASK
#undef HOLDFAST_OPENMP_REAL
};

constexpr bool kIsBarrier[kNames] = {
#define HOLDFAST_OPENMP(name, wrapper) false,
#define HOLDFAST_OPENMP_BARRIER(name, wrapper) true,
#define HOLDFAST_OPENMP_TASK(name) false,
#define HOLDFAST_OPENMP_REAL(name) false,
#include "sampler/contract/openmp.inc"
#undef HOLDFAST_OPENMP
#undef HOLDFAST_OPENMP_BARRIER
#undef HOLDFAST_OPENMP_TASK
#undef HOLDFAST_OPENMP_REAL
};
constexpr bool kIsTask[kNames] = {
#define HOLDFAST_OPENMP(name, wrapper) false,
#define HOLDFAST_OPENMP_BARRIER(name, wrapper) false,
#define HOLDFAST_OPENMP_TASK(name) true,
#define HOLDFAST_OPENMP_REAL(name) false,
#include "sampler/contract/openmp.inc"
#undef HOLDFAST_OPENMP
#undef HOLDFAST_OPENMP_BARRIER
#undef HOLDFAST_OPENMP_TASK
#undef HOLDFAST_OPENMP_REAL
};

bool IsOpenMp(const char* name) {
  return strncmp(name, "GOMP_", 5) == 0 || strncmp(name, "omp_", 4) == 0 || strncmp(name, "__kmpc_", 7) == 0;
}

int NumberIn(const char* name) {
  if (!IsOpenMp(name)) return -1;
  for (int i = 0; i < kNames; ++i) {
    if (strcmp(name, kTexts[i]) == 0) return i;
  }
  return -1;
}

constinit bool has_tasks = false;

bool MakesTask(const char* name) {
  const int number = NumberIn(name);
  return number >= 0 && kIsTask[number];
}
int NumberToReplace(const char* name) {
  const int number = NumberIn(name);
  return number < 0 || wrappers[number] == nullptr || (kIsBarrier[number] && has_tasks) ? -1 : number;
}

// The runtime itself: its own calls are part of ones that are already counted.
bool HasReal(const ImportingObject& object) {
  for (const void* of : reals) {
    const auto address = reinterpret_cast<uintptr_t>(of);
    if (of != nullptr && address >= object.start && address < object.end) return true;
  }
  return false;
}

// libgomp.so.1, libomp.so.5, libiomp5.so, and copies of them under longer names. Every program pays for this search.
bool HasRuntime() {
  for (const link_map* map = FirstObject(); map != nullptr; map = map->l_next) {
    if (strstr(map->l_name, "omp") != nullptr) return true;
  }
  return false;
}

template <typename Visit>
void ForEachUser(Visit visit) {
  for (const link_map* map = FirstObject(); map != nullptr; map = map->l_next) {
    ImportingObject object;
    if (DescribeImports(map, &object) && !IsOwnLibrary(object) && !HasReal(object)) visit(object);
  }
}

}  // namespace

void BindOpenMp() {
  static constexpr SymbolName kRuntimes[] = {"GOMP_barrier", "__kmpc_barrier"};
  if (!process.recording.load(std::memory_order_relaxed) || passes_through || !HasRuntime() ||
      !IsAnyDefinedAnywhere(kRuntimes, 2)) {
    return;
  }
  for (int i = 0; i < kNames; ++i) {
    void* found = FindFunction(kTexts[i]);
    // Not one that is linked into the program.
    if (found != nullptr && ObjectOf(found) != nullptr && ObjectOf(found) != FirstObject()) reals[i] = found;
  }
  // A lock of one runtime is none of another's.
  for (const int set : {k_omp_set_lock, k_omp_set_nest_lock, k_omp_set_lock_, k_omp_set_nest_lock_}) {
    if (ObjectOf(reals[TestOf(set)]) != ObjectOf(reals[set])) reals[TestOf(set)] = nullptr;
  }
  ForEachUser([](const ImportingObject& object) { has_tasks = has_tasks || ImportsAny(object, MakesTask); });
  ForEachUser([](const ImportingObject& object) { ReplaceImports(object, {NumberToReplace, reals, wrappers}); });
}

void OpenMpInForkedChild() {
  if (!any_section.load(std::memory_order_relaxed)) return;
  for (Section& section : sections) section.inside.store(0, std::memory_order_relaxed);
}

}  // namespace holdfast
