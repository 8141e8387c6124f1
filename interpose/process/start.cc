// Starts the shim: on the first call that reaches it, or in its constructor, whichever comes first. Also its part at
// the end.
#include "interpose/process/start.h"

#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include <string_view>

#include "interpose/base/defined_functions.h"
#include "interpose/base/defined_names.h"
#include "interpose/base/find_functions.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/entries/redirect.h"
#include "interpose/exceptions/throw_functions.h"
#include "interpose/heap/early_arena.h"
#include "interpose/heap/large_samples.h"
#include "interpose/heap/musl_forms.h"
#include "interpose/heap/operators.h"
#include "interpose/heap/own_names.h"
#include "interpose/locks/openmp.h"
#include "interpose/locks/spin.h"
#include "interpose/maps/allocator_code.h"
#include "interpose/process/attach.h"
#include "interpose/process/exit_hooks.h"
#include "interpose/process/fork_handlers.h"
#include "sampler/contract/loaded_objects.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/process.h"
#include "sampler/record/cleanup.h"

extern "C" __attribute__((visibility("hidden"))) const char __ehdr_start[];
extern "C" __attribute__((visibility("hidden"))) const char _end[];

namespace holdfast {

namespace {

enum class Stage { kBefore, kResolving, kReady };
constinit Stage stage = Stage::kBefore;

// Contains its own address once the dynamic linker has relocated us; null before.
struct SelfPointer {
  const void* self;
};
extern "C" {
__attribute__((visibility("hidden"))) extern SelfPointer holdfast_self_pointer;
SelfPointer holdfast_self_pointer = {&holdfast_self_pointer};
}

bool Relocated() {
  const void* self;
  HOLDFAST_LOAD_PC_RELATIVE(holdfast_self_pointer, self);
  return self == &holdfast_self_pointer;  // before, it may be the address in the file (arm64)
}

// Whether the program's calls lead to ours. A program that is not position-independent and takes a function's address
// (Debian's python3 that of malloc) has an entry of its own for the function, which leads to the first definition.
bool Reached(const char* name) { return IsDefinedFirstAt(name, __ehdr_start); }

bool ReachedByAll() { return Reached("malloc") && Reached("free") && Reached("realloc"); }

// memcheck, massif, dhat, helgrind and drd load a library of their own besides the one of every tool. callgrind and
// lackey do not; we count our own instructions with them.
bool RunsUnderMallocReplacingValgrind() {
  for (const link_map* object = FirstObject(); object != nullptr; object = object->l_next) {
    for (const char* tool = object->l_name; *tool != '\0'; ++tool) {
      if (TextStartsWith(tool, "vgpreload_") && !TextStartsWith(tool, "vgpreload_core")) return true;
    }
  }
  return false;
}

// Programs with a sanitizer, and those under valgrind tools that replace malloc, are left alone: they have their own
// wrappers.
bool SomebodyElseIsAtWork() {
  static constexpr SymbolName kSanitizers[] = {"__asan_init", "__hwasan_init", "__msan_init", "__tsan_init"};
  return IsAnyDefinedAnywhere(kSanitizers, sizeof kSanitizers / sizeof *kSanitizers) || getauxval(AT_SECURE) != 0 ||
         RunsUnderMallocReplacingValgrind();
}

// Null: another libc. A musl program may have a library that pretends to be glibc (gcompat).
const link_map* Glibc() { return IsMusl() ? nullptr : FirstThatDefines("gnu_get_libc_version"); }
const link_map* LibcObject() {
  const link_map* glibc = Glibc();
  return glibc != nullptr ? glibc : LinkerObject();
}

// Whether the first object that defines clock_gettime is not libc. The kernel's own, the vDSO, is in the list, but in
// no scope.
bool ClockIsInterposed() {
  const uintptr_t vdso = getauxval(AT_SYSINFO_EHDR);
  const link_map* object = FirstThatDefines("clock_gettime");
  if (object != nullptr && vdso != 0 && object->l_addr == vdso)
    object = FirstThatDefines("clock_gettime", NextInSearch(object));
  return object != nullptr && object != LibcObject();
}

// A user's settings must not reach a program that a setuid program starts as root: removes them from the environment,
// as the dynamic linker does with its own variables.
void ForgetOurVariables(const char** environment) {
  const char** kept = environment;
  for (; *environment != nullptr; ++environment) {
    if (!TextStartsWith(*environment, "HOLDFAST_")) *kept++ = *environment;
  }
  *kept = nullptr;
}

const link_map* ObjectOfFunction(auto* function) { return ObjectOf(reinterpret_cast<const void*>(function)); }

bool IsAllocatorInExecutable() { return ObjectOfFunction(real.malloc) == FirstObject(); }

// A sampled block may only be put at a tagged address, and parked, if memalign and malloc_usable_size belong to the
// same allocator as malloc and free.
bool AllocatorCanAlign() {
  const link_map* object = ObjectOfFunction(real.malloc);
  return object != nullptr && ObjectOfFunction(real.free) == object && ObjectOfFunction(real.memalign) == object &&
         ObjectOfFunction(real.malloc_usable_size) == object;
}

// Every block that free gets is then glibc's, which keeps its size before it.
bool AllocatorIsLibcs() {
  const link_map* object = Glibc();
  return object != nullptr && ObjectOfFunction(real.malloc) == object && ObjectOfFunction(real.calloc) == object &&
         ObjectOfFunction(real.realloc) == object;
}

// Snapshot on demand: the program's own handler for this signal is still called.
constinit struct sigaction previous_action {};

void OnSnapshotSignal(int number, siginfo_t* info, void* context) {
  RequestSnapshot();
  if ((previous_action.sa_flags & SA_SIGINFO) != 0) {
    if (previous_action.sa_sigaction != nullptr) previous_action.sa_sigaction(number, info, context);
  } else if (previous_action.sa_handler != SIG_DFL && previous_action.sa_handler != SIG_IGN) {
    previous_action.sa_handler(number);
  }
}

void InstallSnapshotSignal() {
  const int number = SnapshotSignal();
  if (number == 0) return;
  struct sigaction action {};
  action.sa_sigaction = OnSnapshotSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  real.sigaction(number, &action, &previous_action);
}

void InChild() {
  OperatorsInForkedChild();
  ThrowFunctionsInForkedChild();
  OpenMpInForkedChild();
  InForkedChild();
}

extern "C" HOLDFAST_HIDDEN void* __dso_handle;

// For daemon and forkpty, too, which call fork inside libc.
constexpr ForkHandlers kAroundFork = {BeforeFork, AfterFork, InChild};

// glibc and musl register these by different functions. Loaded late: only if nobody forks now; otherwise returns false.
bool RegisterHandlers() {
  using Handler = void (*)();
  const bool was_muted = thread_state.muted;
  Mute(thread_state);  // musl allocates for its handlers: that memory is not the program's
  if (!loaded_late) {
    RegisterForkHandlers(kAroundFork);
  } else if (!TryRegisterForkHandlers(kAroundFork)) {
    thread_state.muted = was_muted;
    return false;
  }
  if (void* add = FindFunction("__cxa_at_quick_exit")) {
    const auto handler = [](void*) { AwaitLastProfile(); };
    reinterpret_cast<int (*)(void (*)(void*), void*)>(add)(handler, __dso_handle);
  } else if (void* musls = FindFunction("at_quick_exit")) {
    reinterpret_cast<int (*)(Handler)>(musls)(AwaitLastProfile);
  }
  thread_state.muted = was_muted;
  return true;
}

void FindCleanupFunctions() {
  if (process.libc == Libc::kOther) return;
  void* push = FindFunction("_pthread_cleanup_push");
  void* pop = FindFunction("_pthread_cleanup_pop");
  if (push == nullptr || pop == nullptr) return;
  cleanup_functions = {reinterpret_cast<decltype(cleanup_functions.push)>(push),
                       reinterpret_cast<decltype(cleanup_functions.pop)>(pop)};
}

// Whether the library comes after libc in the list of objects: a preloaded library is before it.
bool IsLoadedLate() {
  if (IsMusl()) return false;
  const link_map* object = ObjectOf(static_cast<const void*>(__ehdr_start));
  while (object != nullptr && DefinedFunctions(object).Find("gnu_get_libc_version", nullptr) == nullptr)
    object = object->l_prev;
  return object != nullptr;
}

// For a library that was loaded late; null until it is started.
constinit const char* const* late_variables = nullptr;

const char* const* InitialEnvironment() {
  const auto* words = reinterpret_cast<const char* const*>(initial_stack);
  const auto argument_count = reinterpret_cast<uintptr_t>(words[0]);
  return words + 1 + argument_count + 1;
}

__attribute__((constructor)) void Constructor() {
  if (stage == Stage::kBefore) loaded_late = IsLoadedLate() && !ReachedByAll();
  is_constructed = true;
  if (loaded_late) return;
  Ready();
  InstallSnapshotSignal();
  BindOwnNames();
  BindOpenMp();
  DecideEntries();
  RegisterHandlers();
  if (passes_through) return;
  BeginCpuSamples();
  BeginLooks();
}

__attribute__((destructor)) void Destructor() {
  if (stage == Stage::kReady) AwaitLastProfile();
}

}  // namespace

constinit bool entries_decided = false;

void DecideEntries() {
  if (entries_decided || loaded_late) return;
  entries_decided = true;
  // libc takes a record from the program's allocator. One that can be redirected is known and can serve it now; any other
  // may need something that the program does first.
  RedirectEntries([] {
    if (!passes_through && !owns_malloc) WatchReturnFromMain();
  });
}

HOLDFAST_COLD bool ReadySlow() {
  if (stage == Stage::kReady) return true;
  if (stage == Stage::kResolving || !Relocated() || (loaded_late && late_variables == nullptr)) return false;
  // musl 1.1.20 to 1.1.22 allocate the first thread's TLS by calloc, before the list of objects is published.
  if (IsMusl() && FirstObject() == nullptr) return false;
  // There is one thread now, or the program's first threads all wait for their creator's first allocation. Loaded late:
  // no thread reaches the library yet.
  stage = Stage::kResolving;
  NoteInitialStack();
  FindRealFunctions();
  FindThrowFunctions();
  owns_malloc = loaded_late ? !IsAllocatorInExecutable() : ReachedByAll();
  if (!loaded_late && !Reached("free")) others_free = reinterpret_cast<void (*)(void*)>(FindFunction("free"));
  clock_is_interposed = ClockIsInterposed();
  process.libc = Glibc() != nullptr ? Libc::kGlibc : IsMusl() ? Libc::kMusl : Libc::kOther;
  FindCleanupFunctions();
  const char* const* environment = loaded_late ? late_variables : InitialEnvironment();
  const link_map* self = ObjectOf(static_cast<const void*>(__ehdr_start));
  if (getauxval(AT_SECURE) != 0) ForgetOurVariables(const_cast<const char**>(environment));
  passes_through =
      !StartRecording(environment, self != nullptr ? self->l_name : "", SomebodyElseIsAtWork(), !loaded_late);
  // libc's record would come from the program's own allocator, which may just be starting: see Constructor.
  if (!passes_through && owns_malloc && !loaded_late) WatchReturnFromMain();
  // No early block is made after this.
  sampled_filter.always_ask[0] = {early_arena.first, early_arena.used};
  sampled_filter.always_ask[1] = {early_arena.more, early_arena.used_more};
  sampled_filter.usable_mask.store(early_arena.used + early_arena.used_more == 0 ? UINT32_MAX : kTagAlignment - 1);
  untagged = {real.free, real.realloc, real.__libc_free, real.__libc_realloc};
  if (owns_malloc) WatchFreeCalls(__ehdr_start, _end);
  // Another allocator's functions that free by size are not redirected when the library comes late: a sample must then
  // stay in the size class that the program asked for.
  bool can_align = owns_malloc && AllocatorCanAlign() && (!loaded_late || AllocatorIsLibcs());
  sizes_stand_before_blocks = can_align && AllocatorIsLibcs();
  if (AllocatorIsLibcs()) other_allocators.fetch_and(~uint32_t{kOtherMalloc});
  if (process.libc == Libc::kMusl) {
    if (ObjectOfFunction(real.calloc) == LibcObject() && !UseOwnForms()) can_align = false;
    UseMuslSpinLocks();
  }
  AllowTag(can_align);
  FindAllocatorCode(reinterpret_cast<const void*>(real.malloc));
  stage = Stage::kReady;
  hot_size_limit = kHotSizeLimit;
  StartHotNew();
  loaded_late ? FindAllocatorsOperators() : FindOperators();
  countdown_offset = OffsetOfCountdown();
  BeginWatchingLocks();
  if (process.libc != Libc::kGlibc) AlwaysLookSlowly();
  return true;
}

bool StartLate(const char* const* variables) {
  static constinit bool is_registered = false;
  if (stage == Stage::kBefore) {
    late_variables = variables;
    // Other threads may load and unload objects.
    CallWithObjectsLocked([](void*) { ReadySlow(); }, nullptr);
  }
  if (stage == Stage::kReady && !passes_through && !is_registered) is_registered = RegisterHandlers();
  return is_registered || stage != Stage::kReady || passes_through;
}

}  // namespace holdfast
