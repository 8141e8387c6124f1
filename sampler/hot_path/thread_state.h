// The sampler's state of one thread; wrappers see this_thread.h. Thread-local, initial-exec, constant-initialised,
// without a destructor: a new thread costs nothing until its first allocation, and a thread that ends needs no cleanup.
#ifndef HOLDFAST_SAMPLER_HOT_PATH_THREAD_STATE_H_
#define HOLDFAST_SAMPLER_HOT_PATH_THREAD_STATE_H_

#include <cstddef>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// The range of this thread's stack that is known to be readable; zero at first.
struct StackBounds {
  uintptr_t low;
  uintptr_t high;
};

struct LockPairRecord;
struct LockRecord;
struct LockSlot;
struct WaitState;
struct Row;

// The current wait of a thread. A copy: the WaitState itself is on the thread's stack and may have been left by a jump.
struct NotedWait {
  const WaitState* wait;  // null: none
  LockSlot* slot;
  int64_t start_ns;
  WaitKind kind;
  bool covers_inner;  // waits of this thread during this one are part of it
  // The handler registered with libc for it (interpose/locks/cancellation.h), and the previous head of libc's list:
  // bytes from `wait` to there. 0: nothing.
  int16_t cleanup;
  int32_t former_cleanup;
};
// The innermost wait, and the one that it interrupted (in a signal handler, which may jump out of both).
struct CurrentWait : NotedWait {
  NotedWait outer;
};

// kBusy: the sums are being added. A handler that waits just then, or jumped out of that, adds its waits' sums at once.
enum class Publishing : uint8_t { kNone, kBusy, kDue };

// A finished wait, with what its sums need. See EndWait.
struct EndedWait {
  LockRecord* record;
  Row* row;
  LockPairRecord* pair;
  uint64_t waited_ns;
  uint64_t interval;
  int64_t budget_ns;
  uint64_t gap_ns;  // part during which nobody held the lock
  float chance;
  WaitKind kind;
  bool sampled : 1;
  bool acquired : 1;
  uint8_t known : 6;  // see WaitState
  Publishing publishing;
};

struct ThreadState {
  // Bytes that this thread may still allocate before it takes the slow path. Zero in a new thread, so that its first
  // allocation introduces it.
  int64_t heap_countdown;
  int64_t heap_gap;        // heap_countdown when it was last set: the difference has been allocated
  int64_t lock_countdown;  // nanoseconds that this thread may still wait for locks before a wait is sampled
  int64_t hold_countdown;  // nanoseconds that others may still wait for its locks before a hold is sampled
  uint64_t random;         // state of the thread's generator
  StackBounds stack_bounds;
  uint32_t epoch;           // Process::epoch when the thread was introduced; 0 = not yet
  uint16_t interval_index;  // index of the heap interval that heap_countdown was drawn from
  uint16_t labels;          // number of its LabelSet (sampler/table/label_sets.h); 0: none
  uint16_t samples;  // how many until one is timed (bits 0–7), and what else OwnTime keeps; differs after each one
  uint16_t scratch;  // 1 + the number of its scratch buffer; 0 = none
  uint16_t fast_unlocks;   // while a lock is watched: unlocks until one is checked (see MayUnlockFast)
  uint16_t slot_turn;      // starts at random, grows by 1 with each unlock of a watched lock: FreeIdleSlots's turn
  uint16_t shard;          // its CounterShard
  bool muted;              // inside our own slow path, or an operator: nested calls only forward
  bool heap_gap_is_event;  // a sample is due when heap_countdown runs out; else only a check of the options
  uint16_t ongoing_slot;   // 1 + the number of the slot of its last wait; 0: it has not waited
  uint16_t owner;          // of rows (Row::owner); 0: too many threads came before it
  // While the program's operator new runs inside our wrapper: the values to restore afterwards. See MuteForOperator.
  int64_t held_countdown;
  int64_t held_gap;
  CurrentWait current_wait;
  EndedWait ended_wait;
  const void* operators;   // interpose/heap/operators.cc: the operators called last
  int thread_id;           // the kernel's id; 0 = not known yet
  bool in_operator;        // muted for that call
  uint8_t preparing;       // its share of lock_preparing
  uint8_t stack_floor;     // lowest bits of the lowest usable page of its stack: see little_stack.cc
  bool noted : 1;          // in TableHeader::noted_threads
  bool throwing : 1;       // between the C++ runtime's entry point and the unwinder's: sampler/record/throws.h
  uint8_t cpu_seen : 6;    // cpu_changes when it last checked its CPU timer: sampler/process/cpu_timers.h
  uint16_t long_waits;     // bits of WaitKind: the last wait of this kind outlasted kFirstPartNs
  uint16_t sampled_index;  // index of the heap interval of the sample in progress
  uint16_t lock_index;     // index of the lock interval that lock_countdown was drawn from
  uint16_t hold_index;     // the same for hold_countdown
  uintptr_t entered_at;    // stack position at the last EnterSlow: see there
};
static_assert(sizeof(ThreadState) == 256);

// The word that contains the labels, beside fields that change as rarely. A walk remembered under another word is not
// valid.
inline uint16_t LabelsIn(uintptr_t label_word) { return static_cast<uint16_t>(label_word >> 48); }
inline const uintptr_t* LabelWord(const ThreadState& thread) {
  return reinterpret_cast<const uintptr_t*>(&thread.epoch);
}
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // every compiler that builds this has it
static_assert(offsetof(ThreadState, epoch) % 8 == 0 &&
              offsetof(ThreadState, labels) == offsetof(ThreadState, epoch) + 6);
#pragma GCC diagnostic pop

extern HOLDFAST_HIDDEN __thread ThreadState thread_state __attribute__((tls_model("initial-exec")));

// Marks this thread as inside our own code. Set and cleared by hand, because nothing with a destructor may live across
// a call to a real function.
inline void Mute(ThreadState& thread) { thread.muted = true; }
inline void Unmute(ThreadState& thread) { thread.muted = false; }

// Returns this thread's id; 0 if it may not ask the kernel.
int ThreadId();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_THREAD_STATE_H_
