// exit and quick_exit, and a return from main, which libc ends by an exit of its own that passes no wrapper.
//
//   exit(3)             ─► BeforeExitHandlers ─► the real exit: destructors of thread_local objects, handlers, our destructor
//   return from main    ─► libc's exit ─► the newest destructor of the main thread's thread_local objects: here
//                                         ─► BeforeExitHandlers ─► the other destructors, handlers, our destructor
//
// libc calls those destructors newest first, before any handler. Ours is registered before the program's, so each of the
// program's is wrapped: whichever runs first leads here.
#include "interpose/process/exit_hooks.h"

#include <unistd.h>

#include "interpose/base/glibc_nodes.h"
#include "interpose/base/late_functions.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "sampler/contract/syscalls.h"
#include "sampler/lifetime/lifetime.h"

using namespace holdfast;

extern "C" HOLDFAST_HIDDEN void* __dso_handle;

namespace holdfast {
namespace {

constinit pthread_t main_thread = 0;
constinit bool main_thread_may_end = false;  // while the process goes on

void OnMainThreadEnd(void*) { BeforeExitHandlers(!main_thread_may_end); }

// A destructor of the main thread's, as the program registered it. Used by the main thread alone; no entry is used twice.
struct Wrapped {
  void (*destructor)(void*);
  void* object;
};
constexpr int kMaxWrapped = 64;  // those after it run unwrapped: what they free is missing in the snapshot
constinit Wrapped wrapped[kMaxWrapped] = {};
constinit int wrapped_count = 0;

void RunWrapped(void* given) {
  OnMainThreadEnd(nullptr);
  const auto* entry = static_cast<Wrapped*>(given);
  entry->destructor(entry->object);
}

bool IsMainThread() { return RawSyscall(SYS_gettid) == RawSyscall(SYS_getpid); }

}  // namespace

void NoteThreadEnd() {
  // Without system calls where possible: a filter may forbid them.
  if (main_thread != 0) return NoteCancellation(pthread_self());
  if (!passes_through && !no_system_calls.load(std::memory_order_relaxed) && IsMainThread()) main_thread_may_end = true;
}
void NoteCancellation(pthread_t thread) {
  if (pthread_equal(thread, main_thread) != 0) main_thread_may_end = true;
}

void WatchReturnFromMain() {
  if (!IsMainThread()) return;
  main_thread = pthread_self();
  if (IsFound(reinterpret_cast<const void*>(real.__cxa_thread_atexit_impl)))
    real.__cxa_thread_atexit_impl(OnMainThreadEnd, nullptr, &__dso_handle);
}

}  // namespace holdfast

extern "C" {

HOLDFAST_EXPORT int __cxa_thread_atexit_impl(void (*destructor)(void*), void* object, void* module) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  if (!passes_through && wrapped_count < kMaxWrapped && !no_system_calls.load(std::memory_order_relaxed) &&
      IsMainThread()) {
    Wrapped* const entry = &wrapped[wrapped_count++];
    *entry = {destructor, object};
    return real.__cxa_thread_atexit_impl(RunWrapped, entry, module);
  }
  return real.__cxa_thread_atexit_impl(destructor, object, module);
}

// Under names of their own: the declarations in <stdlib.h> are noreturn, and such functions leave a frame of theirs below every
// handler's stack instead of a jump.
HOLDFAST_EXPORT void HoldfastExit(int status) asm("exit");
void HoldfastExit(int status) {
  if (UNLIKELY(!Ready())) {
    while (true) RawSyscall(SYS_exit_group, status);
  }
  BeforeExitHandlers(true);
  real.exit(status);
}

HOLDFAST_EXPORT void HoldfastQuickExit(int status) asm("quick_exit");
void HoldfastQuickExit(int status) {
  if (UNLIKELY(!Ready())) {
    while (true) RawSyscall(SYS_exit_group, status);
  }
  BeforeExitHandlers(true);
  real.quick_exit(status);
}

HOLDFAST_EXPORT void holdfast_quick_exit_2_10(int status) {
  if (UNLIKELY(!Ready())) {
    while (true) RawSyscall(SYS_exit_group, status);
  }
  BeforeExitHandlers(true);
  real.quick_exit_2_10(status);
}
asm(".symver holdfast_quick_exit_2_10,quick_exit@" HOLDFAST_GLIBC_2_10 ",remove");

}  // extern "C"
