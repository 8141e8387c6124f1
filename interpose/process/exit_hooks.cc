// exit and quick_exit, and a return from main, which libc ends by an exit of its own that passes no wrapper.
//
//   exit(3)             ─► BeforeExitHandlers ─► the real exit: destructors of thread_local objects, handlers, our destructor
//   return from main    ─► libc's exit ─► the newest destructor of the main thread: ours ─► the others, handlers, our destructor
//
// Both ways lead through the destructors of the calling thread's thread_local objects first, newest first. The main thread
// therefore registers ours again after each of the program's.
#include "interpose/process/exit_hooks.h"

#include <unistd.h>

#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "sampler/contract/syscalls.h"
#include "sampler/hot_path/this_thread.h"
#include "sampler/lifetime/lifetime.h"

using namespace holdfast;

extern "C" HOLDFAST_HIDDEN void* __dso_handle;

namespace holdfast {
namespace {

void OnMainThreadEnd(void*) { BeforeExitHandlers(); }

// libc allocates a record for each destructor. It is ours, not the program's: the thread is muted meanwhile.
void RegisterOurs() {
  if (IsMuted()) return;
  MuteForOperator();
  real.__cxa_thread_atexit_impl(OnMainThreadEnd, nullptr, &__dso_handle);
  UnmuteForOperator();
}

bool IsMainThread() { return RawSyscall(SYS_gettid) == RawSyscall(SYS_getpid); }

}  // namespace

void WatchReturnFromMain() {
  if (!passes_through && real.__cxa_thread_atexit_impl != nullptr && IsMainThread()) RegisterOurs();
}

}  // namespace holdfast

extern "C" {

HOLDFAST_EXPORT int __cxa_thread_atexit_impl(void (*destructor)(void*), void* object, void* module) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  const int result = real.__cxa_thread_atexit_impl(destructor, object, module);
  if (result == 0 && !passes_through && IsMainThread()) RegisterOurs();
  return result;
}

// Under names of their own: the declarations in <stdlib.h> are noreturn, and such functions leave a frame of theirs below every
// handler's stack instead of a jump.
HOLDFAST_EXPORT void HoldfastExit(int status) asm("exit");
void HoldfastExit(int status) {
  if (UNLIKELY(!Ready())) {
    while (true) RawSyscall(SYS_exit_group, status);
  }
  BeforeExitHandlers();
  real.exit(status);
}

HOLDFAST_EXPORT void HoldfastQuickExit(int status) asm("quick_exit");
void HoldfastQuickExit(int status) {
  if (UNLIKELY(!Ready())) {
    while (true) RawSyscall(SYS_exit_group, status);
  }
  BeforeExitHandlers();
  real.quick_exit(status);
}

HOLDFAST_EXPORT void holdfast_quick_exit_2_10(int status) {
  if (UNLIKELY(!Ready())) {
    while (true) RawSyscall(SYS_exit_group, status);
  }
  BeforeExitHandlers();
  real.quick_exit_2_10(status);
}
asm(".symver holdfast_quick_exit_2_10,quick_exit@GLIBC_2.10,remove");

}  // extern "C"
