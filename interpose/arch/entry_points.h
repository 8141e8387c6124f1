// Hand-written entry points, in assembly: one folder for each processor. This header declares what they need from the
// rest, and the other way round.
//
//   _Znwm, _Znam          new and new[]: charge the bytes (1 for 0) to the thread, call the function in HotNew. The call
//                         needs a frame, because the C++ library handles a failed allocation.
//   HoldfastCallNew…      the functions in HotNew at first: pass the caller's registers on to HoldfastNew…Elsewhere
//   HoldfastCallMuted     calls an operator of the program's
//   syscall               futex and seccomp go to our wrappers; everything else jumps to the result of HoldfastRealSyscall,
//                         with all registers untouched: vfork, or clone with a new stack, could not return through a frame
//   __cxa_throw, __cxa_rethrow, _Unwind_RaiseException, _Unwind_Resume_or_Rethrow
//                         pass the caller's registers on, then jump to the function that they get back, with their own
//                         arguments: the real one sees the program's frame as its caller
#ifndef HOLDFAST_INTERPOSE_ARCH_ENTRY_POINTS_H_
#define HOLDFAST_INTERPOSE_ARCH_ENTRY_POINTS_H_

#include <stddef.h>
#include <stdint.h>

#include "sampler/contract/attributes.h"

namespace holdfast {

// Read by the hot paths of new. `countdown_offset` is as in this_thread.h, and follows it when the shim is ready.
// `allocate` and `allocate_array` are called: the real malloc once the operators may be skipped, until then (and for
// good if they may not) a path to the slow path.
struct alignas(64) HotNew {
  intptr_t countdown_offset;
  void* (*allocate)(size_t);
  void* (*allocate_array)(size_t);
};

}  // namespace holdfast

extern "C" {

// ---- Theirs ----

// Calls function(a, b, c). When an exception (or a cancellation) passes, the personality routine of this frame unmutes
// the thread; it needs no landing pad and no C++ runtime.
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
