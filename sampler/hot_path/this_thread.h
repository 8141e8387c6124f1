// What wrappers may ask and change of the calling thread, and all of it: nobody outside of sampler/ touches `thread_state`.
//
// Any thread, signal handlers. What a hot path does here is one or two instructions.
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

// Where heap_countdown lies, counted from the thread pointer; as the compiler would find it in the GOT, but ours to set.
// Until the shim is ready it leads to kUnusedWord, so that every charge runs out and comes to the slow path: the hot
// path needs no test of its own for that.
extern HOLDFAST_HIDDEN intptr_t countdown_offset;

inline intptr_t OffsetOfCountdown() {
  return static_cast<intptr_t>(reinterpret_cast<uintptr_t>(&thread_state.heap_countdown) - ThreadPointer());
}

// Charges `bytes`, 1 if there are none, to this thread; true when its countdown has run out. Larger sizes than any
// allocator has always run out (see UndoCharge).
HOLDFAST_HOT inline bool ChargeHeap(size_t bytes) { return ChargeWord(bytes, countdown_offset); }

// The same for realloc, which frees where 0 bytes are asked for: they charge nothing. One instruction less.
HOLDFAST_HOT inline bool ChargeHeapUnlessZero(size_t bytes) { return ChargeWordUnlessZero(bytes, countdown_offset); }

inline void UndoCharge(size_t bytes) { thread_state.heap_countdown += static_cast<int64_t>(bytes != 0 ? bytes : 1); }

// ---- A call of an operator new that is the program's own ----

// Inside our own code, or inside another operator: nested calls are plain forwards.
inline bool IsMuted() { return thread_state.muted; }

// Around the call: its own allocations leave the countdown where it is, as they are part of the one that called.
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

// Whose new this thread called last (interpose/heap/operators.cc).
inline const void* LastOperators() { return thread_state.operators; }
inline void SetLastOperators(const void* operators) { thread_state.operators = operators; }

// ---- Locks ----

// Whether an unlock for which nobody sleeps, while some lock is watched, may go its usual way: all but one in kOneVisitIn of
// each thread, and the first after a wait, which has sums to add. None while some waiter has its stack captured.
HOLDFAST_HOT inline bool Calm() {
  if (UNLIKELY(lock_preparing != 0)) return false;
  return LIKELY(!BorrowsFromZero(thread_state.calm_unlocks));
}
// Whether a wait of this thread is over whose sums are still to be added: by its next unlock.
inline bool HasSumsToAdd() { return thread_state.ended_wait.publishing == Publishing::kDue; }

// Something was registered with libc that ends the wait if its thread is cancelled. Whoever takes the wait for abandoned puts
// `former`, which was first in libc's list, back there.
inline void NoteCleanup(const void* wait, const void* cleanup, const void* former) {
  CurrentWait& current = thread_state.current_wait;
  const auto from = reinterpret_cast<intptr_t>(wait);
  const intptr_t to_cleanup = reinterpret_cast<intptr_t>(cleanup) - from;
  const intptr_t to_former = former != nullptr ? reinterpret_cast<intptr_t>(former) - from : 0;
  const bool near = to_cleanup == static_cast<int16_t>(to_cleanup) && to_former == static_cast<int32_t>(to_former);
  if (current.wait != wait || !near) return;  // not near: on another stack, by which a handler came here
  current.former_cleanup = static_cast<int32_t>(to_former);
  current.cleanup = static_cast<int16_t>(to_cleanup);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_THIS_THREAD_H_
