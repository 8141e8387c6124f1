// Everything that wrappers may read and change of the calling thread: no code outside of sampler/ touches
// `thread_state`.
//
// Any thread, signal handlers. A hot path's use is one or two instructions.
#ifndef HOLDFAST_SAMPLER_HOT_PATH_THIS_THREAD_H_
#define HOLDFAST_SAMPLER_HOT_PATH_THIS_THREAD_H_

#include <cstddef>
#include <cstdint>

#include "sampler/arch/processor.h"
#include "sampler/contract/attributes.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

// ---- Allocations ----

// Offset of heap_countdown from the thread pointer: what the compiler would find in the GOT, but ours to set. Until the
// shim is ready it leads to kUnusedWord, so that every charge runs out and takes the slow path: the hot path needs no
// test for that.
extern HOLDFAST_HIDDEN intptr_t countdown_offset;

inline intptr_t OffsetOfCountdown() {
  return static_cast<intptr_t>(reinterpret_cast<uintptr_t>(&thread_state.heap_countdown) - ThreadPointer());
}

// Charges `bytes` (1 for 0) to this thread; true when its countdown has run out. Sizes that no allocator can satisfy
// always run out (see UndoCharge).
HOLDFAST_HOT inline bool ChargeHeap(size_t bytes) { return ChargeWord(bytes, countdown_offset); }

// The same for realloc, where 0 bytes mean free and charge nothing. One instruction less.
HOLDFAST_HOT inline bool ChargeHeapUnlessZero(size_t bytes) { return ChargeWordUnlessZero(bytes, countdown_offset); }

inline void UndoCharge(size_t bytes) { thread_state.heap_countdown += static_cast<int64_t>(bytes != 0 ? bytes : 1); }

// The state of this thread's countdown at some moment. See ChargedSince and HasSampledSince.
struct AllocationMark {
  int64_t countdown;
  uint16_t samples;
};
inline AllocationMark MarkAllocations() { return {thread_state.heap_countdown, thread_state.samples}; }
// Bytes charged since; wrong if a sample was taken in between.
inline uint64_t ChargedSince(const AllocationMark& mark) {
  return static_cast<uint64_t>(mark.countdown - thread_state.heap_countdown);
}
inline bool HasSampledSince(const AllocationMark& mark) { return thread_state.samples != mark.samples; }

// ---- A call of the program's own operator new ----

// Whether the thread is inside our own code, or another operator: nested calls only forward.
inline bool IsMuted() { return thread_state.muted; }

// Call before and after the operator: its own allocations do not move the countdown, because they belong to the outer
// call.
inline void MuteForOperator() {
  ThreadState& thread = thread_state;
  thread.held_countdown = thread.heap_countdown;
  thread.held_gap = thread.heap_gap;
  thread.heap_countdown = thread.heap_gap = INT64_MAX;
  thread.muted = thread.in_operator = true;
}
inline void UnmuteForOperator() {
  ThreadState& thread = thread_state;
  thread.heap_countdown = thread.held_countdown;
  thread.heap_gap = thread.held_gap;
  thread.muted = thread.in_operator = false;
}
inline bool IsInOperator() { return thread_state.in_operator; }

// ---- The block that this thread counted last ----

// Kept where only an operator's call needs the words.
inline void SetLastCounted(const void* block, uint64_t bytes) {
  if (thread_state.in_operator) return;
  thread_state.held_countdown = static_cast<int64_t>(reinterpret_cast<uintptr_t>(block));
  thread_state.held_gap = static_cast<int64_t>(bytes);
}
inline bool IsWithinLastCounted(const void* block) {
  return !thread_state.in_operator &&
         reinterpret_cast<uintptr_t>(block) - static_cast<uintptr_t>(thread_state.held_countdown) <
             static_cast<uint64_t>(thread_state.held_gap);
}

// The operators that this thread called last (interpose/heap/operators.cc).
inline const void* LastOperators() { return thread_state.operators; }
inline void SetLastOperators(const void* operators) { thread_state.operators = operators; }

// ---- Locks ----

// Whether an unlock without sleepers, while some lock is watched, may take the fast path: all except one in kOneVisitIn
// of each thread, and the first after a wait, which has sums to add. None while a waiter's stack is being captured.
HOLDFAST_HOT inline bool MayUnlockFast() {
  if (UNLIKELY(lock_preparing != 0)) return false;
  return LIKELY(!BorrowsFromZero(thread_state.fast_unlocks));
}
// Whether this thread's next unlock must add the sums of a finished wait.
inline bool HasSumsToAdd() { return thread_state.ended_wait.publishing == Publishing::kDue; }

// Records the handler that ends the wait if its thread is cancelled, as registered with libc. Code that drops the wait
// as abandoned restores `former`, the previous head of libc's list.
inline void NoteCleanup(const void* wait, const void* cleanup, const void* former) {
  CurrentWait& current = thread_state.current_wait;
  const auto from = reinterpret_cast<intptr_t>(wait);
  const intptr_t to_cleanup = reinterpret_cast<intptr_t>(cleanup) - from;
  const intptr_t to_former = former != nullptr ? reinterpret_cast<intptr_t>(former) - from : 0;
  const bool near = to_cleanup == static_cast<int16_t>(to_cleanup) && to_former == static_cast<int32_t>(to_former);
  if (current.wait != wait || !near) return;  // not near: a handler came here on another stack
  current.former_cleanup = static_cast<int32_t>(to_former);
  current.cleanup = static_cast<int16_t>(to_cleanup);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_THIS_THREAD_H_
