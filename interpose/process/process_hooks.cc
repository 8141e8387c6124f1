// Functions that end the process, unload code, or forbid system calls.
#include <dlfcn.h>
#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "interpose/arch/entry_points.h"
#include "interpose/base/glibc_nodes.h"
#include "interpose/base/readiness.h"
#include "interpose/base/real.h"
#include "interpose/exceptions/throw_functions.h"
#include "interpose/heap/operators.h"
#include "sampler/arch/processor.h"
#include "sampler/contract/syscalls.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/process/process.h"
#include "sampler/record/labels.h"
#include "sampler/record/maps.h"

using namespace holdfast;

static bool IsMappingCall(long number) {
  return number == SYS_mmap || number == SYS_munmap || number == SYS_mremap || number == SYS_brk ||
         number == SYS_shmat || number == SYS_shmdt;
}

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

// Options of prctl after which calls or instructions of ours could end the program, or that change what is recorded.
static bool IsPrctlOfInterest(int option) {
  return option == PR_SET_SECCOMP || option == PR_SET_SYSCALL_USER_DISPATCH || option == PR_SET_TSC ||
         option == PR_SET_NAME || option == PR_SET_CHILD_SUBREAPER;
}

extern "C" {

// exit and a return from main (exit_hooks.cc) end in the shim's destructor, quick_exit in what start.cc registers. These two run no handler.
HOLDFAST_EXPORT void _exit(int status) {
  if (Ready()) {
    AwaitLastProfile();
    real._exit(status);
  }
  while (true) RawSyscall(SYS_exit_group, status);
}

HOLDFAST_EXPORT void _Exit(int status) noexcept {
  if (Ready()) {
    AwaitLastProfile();
    real._Exit(status);
  }
  while (true) RawSyscall(SYS_exit_group, status);
}

static int CloseModule(void* handle) {
  if (UNLIKELY(!Ready())) return -1;
  BeforeUnload();
  const int result = real.dlclose(handle);
  AfterUnload();
  ForgetOperatorsByModule();
  ForgetThrowFunctions();
  return result;
}

HOLDFAST_EXPORT int dlclose(void* handle) noexcept { return CloseModule(handle); }
// As programs from before glibc 2.34 call it.
HOLDFAST_EXPORT int holdfast_dlclose_2_2_5(void* handle) noexcept { return CloseModule(handle); }
asm(".symver holdfast_dlclose_2_2_5,dlclose@" HOLDFAST_GLIBC_2_2_5 ",remove");

// The exporter is started before the program's children are born elsewhere: the first of them has to be its own (see
// ChildrenGoElsewhere).
HOLDFAST_EXPORT int unshare(int flags) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  if ((flags & CLONE_NEWPID) != 0) BeforeNewNamespace();
  return real.unshare(flags);
}

// Without flags: whatever kind of namespace the descriptor is of.
HOLDFAST_EXPORT int setns(int descriptor, int flags) noexcept {
  if (UNLIKELY(!Ready())) return -1;
  if (flags == 0 || (flags & CLONE_NEWPID) != 0) BeforeNewNamespace();
  return real.setns(descriptor, flags);
}

// fork without the handlers of pthread_atfork, ours included.
HOLDFAST_EXPORT pid_t _Fork() noexcept {
  if (UNLIKELY(!Ready())) {
    errno = EAGAIN;
    return -1;
  }
  BeforeFork();
  const pid_t child = real._Fork();
  child != 0 ? AfterFork() : InForkedChild();
  return child;
}

// Variadic in its header; by the calling convention the five registers are what a callee may look at.
HOLDFAST_EXPORT int prctl(int option, ...) noexcept {
  va_list list;
  va_start(list, option);
  const unsigned long a = va_arg(list, unsigned long), b = va_arg(list, unsigned long), c = va_arg(list, unsigned long),
                      d = va_arg(list, unsigned long);
  va_end(list);
  if (UNLIKELY(!Ready())) return -1;
  if (LIKELY(!IsPrctlOfInterest(option))) return real.prctl(option, a, b, c, d);
  if (option == PR_SET_TSC) {
    const bool forbids = a == PR_TSC_SIGSEGV;
    const bool was_forbidden = forbids && ForbidClock(true);
    const int result = real.prctl(option, a, b, c, d);
    if (forbids ? result != 0 && !was_forbidden : result == 0) ForbidClock(false);
    return result;
  }
  if (option == PR_SET_NAME) {
    const int result = real.prctl(option, a, b, c, d);
    if (result == 0) NamedThisThread();
    return result;
  }
  if (option == PR_SET_CHILD_SUBREAPER) {
    SetSubreaper(a != 0);
    return real.prctl(option, a, b, c, d);
  }
  // With Syscall User Dispatch, system calls from outside of one range of code raise SIGSYS: it is a filter, too.
  if (option == PR_SET_SYSCALL_USER_DISPATCH && a == 0 /*PR_SYS_DISPATCH_OFF*/) return real.prctl(option, a, b, c, d);
  const bool is_counted = BeforeSeccomp(option == PR_SET_SECCOMP && a == SECCOMP_MODE_STRICT);
  const int result = real.prctl(option, a, b, c, d);
  AfterSeccomp(is_counted, result == 0);
  return result;
}

// `syscall` (interpose/arch/entry_points.h) comes here first. seccomp(2) has no wrapper in libc: programs (libseccomp)
// call it this way.
HOLDFAST_HIDDEN long HoldfastSeccomp(long number, long a, long b, long c, long d, long e, long f) {
  if (!Ready()) return -1;
  // The other operations only ask. libseccomp does so at its start.
  if (a != SECCOMP_SET_MODE_STRICT && a != SECCOMP_SET_MODE_FILTER) return real.syscall(number, a, b, c, d, e, f);
  const bool is_counted = BeforeSeccomp(a == SECCOMP_SET_MODE_STRICT);
  const long result = real.syscall(number, a, b, c, d, e, f);
  // The descriptor of a listener; without that flag, the id of a thread that prevented the filter.
  const bool has_listener = result > 0 && (b & SECCOMP_FILTER_FLAG_NEW_LISTENER) != 0;
  AfterSeccomp(is_counted, result == 0 || has_listener);
  return result;
}
// prctl by its number.
static long PrctlByNumber(long, long option, long a, long b, long c, long d) {
  return prctl(static_cast<int>(option), a, b, c, d);
}
// While the real one is being looked for, an allocator that dlsym calls may make system calls (jemalloc does).
HOLDFAST_HIDDEN long HoldfastEarlySyscall(long number, long a, long b, long c, long d, long e, long f) {
  const long result = RawSyscall(number, a, b, c, d, e, f);
  if (!SyscallFailed(result)) return result;
  errno = static_cast<int>(-result);
  return -1;
}
// landlock_restrict_self(2) has no wrapper in libc either. (xz 5.8 calls it as its first thing.)
HOLDFAST_HIDDEN void* HoldfastRealSyscall(long number, unsigned long flags) {
  if (UNLIKELY(IsFork(number) || number == SYS_clone3 || (number == SYS_clone && (flags & CLONE_VM) == 0)) &&
      !HasForeignThreadPointer())
    BeforeFork();
  if (UNLIKELY(number == SYS_landlock_restrict_self) && Ready()) BeforeLandlock();
  if (UNLIKELY(!Ready())) return reinterpret_cast<void*>(HoldfastEarlySyscall);
  if (UNLIKELY(number == SYS_prctl) && IsPrctlOfInterest(static_cast<int>(flags)))
    return reinterpret_cast<void*>(PrctlByNumber);
  return UNLIKELY(IsMappingCall(number)) && RecordsMappings() && !HasForeignThreadPointer()
             ? reinterpret_cast<void*>(HoldfastMappingCall)
             : reinterpret_cast<void*>(real.syscall);
}
}  // extern "C"
