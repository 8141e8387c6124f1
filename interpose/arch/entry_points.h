// Entry points that are written by hand, in assembly: one folder for each processor. All that they need of the rest, and
// the rest of them, is declared here.
//
//   _Znwm, _Znam          new and new[]: charge the bytes (1 for 0) to the thread, call what HotNew says. The call needs a
//                         frame, as a block that could not be had is the C++ library's matter.
//   HoldfastCallNew…      what HotNew says at first: hands the caller's registers on to HoldfastNew…Elsewhere
//   HoldfastCallMuted     calls an operator of the program's
//   syscall               futex and seccomp to wrappers of ours; everything else to what HoldfastRealSyscall answers, with all
//                         registers untouched and by a jump: vfork, or clone with a new stack, could not return through a frame
//   __cxa_throw, __cxa_rethrow, _Unwind_RaiseException, _Unwind_Resume_or_Rethrow   hand the caller's registers on, then jump to what they are answered, with
//                         their own arguments: the real one finds the program's frame as if it had been called from there
#ifndef HOLDFAST_INTERPOSE_ARCH_ENTRY_POINTS_H_
#define HOLDFAST_INTERPOSE_ARCH_ENTRY_POINTS_H_

#include <stddef.h>
#include <stdint.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

// What the hot paths of new read. `countdown_offset` is as this_thread.h's; it follows it when the shim is
// ready. `allocate` and `allocate_array` are what they call: the real malloc once the operators may be skipped, until then
// (and for good where they may not) a way to the slow path.
struct alignas(64) HotNew {
  intptr_t countdown_offset;
  void* (*allocate)(size_t);
  void* (*allocate_array)(size_t);
};

}  // namespace holdfast

extern "C" {

// ---- Theirs ----

// Calls function(a, b, c). When an exception (or a cancellation) passes, the personality routine of this frame is called
// on the way, and lifts the mute; it needs no landing pad and no C++ runtime.
HOLDFAST_HIDDEN void* HoldfastCallMuted(void* function, size_t a, size_t b, const void* c);
HOLDFAST_HIDDEN void* HoldfastCallNewElsewhere(size_t bytes);
HOLDFAST_HIDDEN void* HoldfastCallNewArrayElsewhere(size_t bytes);

// ---- What they call (interpose/heap/new.cc) ----

extern HOLDFAST_HIDDEN holdfast::HotNew holdfast_hot_new;
HOLDFAST_HIDDEN void* HoldfastNewDue(size_t bytes);
HOLDFAST_HIDDEN void* HoldfastNewArrayDue(size_t bytes);
HOLDFAST_HIDDEN void* HoldfastNewFailed(size_t bytes);
HOLDFAST_HIDDEN void* HoldfastNewArrayFailed(size_t bytes);
HOLDFAST_HIDDEN void* HoldfastNewElsewhere(size_t bytes, uintptr_t pc, uintptr_t sp, uintptr_t fp);
HOLDFAST_HIDDEN void* HoldfastNewArrayElsewhere(size_t bytes, uintptr_t pc, uintptr_t sp, uintptr_t fp);
HOLDFAST_HIDDEN int HoldfastMutedPersonality(int, int actions, uint64_t, void*, void*);

// (interpose/process/process_hooks.cc)
HOLDFAST_HIDDEN long HoldfastSeccomp(long number, long a, long b, long c, long d, long e, long f);
HOLDFAST_HIDDEN void* HoldfastRealSyscall(long number, unsigned long flags);
HOLDFAST_HIDDEN long HoldfastEarlySyscall(long number, long a, long b, long c, long d, long e, long f);
// (interpose/maps/mapping_calls.cc)
HOLDFAST_HIDDEN long HoldfastMappingCall(long number, long a, long b, long c, long d, long e, long f);
// (interpose/exceptions/throw.cc)
HOLDFAST_HIDDEN void* HoldfastThrown(const void* object, const void* type, uintptr_t pc, uintptr_t sp, uintptr_t fp);
HOLDFAST_HIDDEN void* HoldfastRethrown(uintptr_t pc, uintptr_t sp, uintptr_t fp);
HOLDFAST_HIDDEN void* HoldfastRaised(const void* exception, uintptr_t pc, uintptr_t sp, uintptr_t fp);
HOLDFAST_HIDDEN void* HoldfastResumed(const void* exception, uintptr_t pc, uintptr_t sp, uintptr_t fp);
// (interpose/locks/futex.cc)
HOLDFAST_HIDDEN long HoldfastFutex(long number, long a, long b, long c, long d, long e, long f);
HOLDFAST_HIDDEN long HoldfastFutexWaitv(long number, long a, long b, long c, long d, long e, long f);
HOLDFAST_HIDDEN long HoldfastFutex2Wake(long number, long a, long b, long c, long d, long e, long f);
HOLDFAST_HIDDEN long HoldfastFutex2Wait(long number, long a, long b, long c, long d, long e, long f);

}  // extern "C"

#endif  // HOLDFAST_INTERPOSE_ARCH_ENTRY_POINTS_H_
