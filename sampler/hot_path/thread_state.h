// What the sampler knows of one thread; wrappers see this_thread.h. Thread-local, initial-exec, constant-initialised, without a
// destructor: a new thread costs nothing until its first allocation, and a thread that ends leaves nothing to clean up.
#ifndef HOLDFAST_SAMPLER_HOT_PATH_THREAD_STATE_H_
#define HOLDFAST_SAMPLER_HOT_PATH_THREAD_STATE_H_

#include <cstddef>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// What is known to be readable of this thread's stack: zero at first.
struct StackBounds {
  uintptr_t low;
  uintptr_t high;
};

struct LockPairRecord;
struct LockRecord;
struct LockSlot;
struct WaitState;
struct Row;

// A wait that a thread is in. A copy: the WaitState itself lies on its stack and may have been left by a jump.
struct NotedWait {
  const WaitState* wait;  // null: none
  LockSlot* slot;
  int64_t start_ns;
  WaitKind kind;
  // What is registered with libc for it (interpose/locks/cancellation.h), and what was first in libc's list before: bytes from
  // `wait` to there. 0: nothing.
  int16_t cleanup;
  int32_t former_cleanup;
};
// The innermost, and the one that it interrupted (in a signal handler, which may jump out of both).
struct CurrentWait : NotedWait {
  NotedWait outer;
};

// kBusy: somebody is at it. A handler that waits just then, or one that jumped out of there, publishes its waits at once.
enum class Publishing : uint8_t { kNone, kBusy, kDue };

// A wait that is over, as far as sums want to know. See EndWait.
struct EndedWait {
  LockRecord* record;
  Row* row;
  LockPairRecord* pair;
  uint64_t waited_ns;
  uint64_t interval;
  int64_t budget_ns;
  uint64_t gap_ns;  // of which nobody held the lock
  float chance;
  WaitKind kind;
  bool sampled : 1;
  bool acquired : 1;
  uint8_t known : 6;  // as in WaitState
  Publishing publishing;
};

struct ThreadState {
  // Bytes that this thread may still allocate before it takes the slow path. Zero in a new thread, so that its first
  // allocation introduces it.
  int64_t heap_countdown;
  int64_t heap_gap;        // what heap_countdown was when it was last set: their difference has been allocated
  int64_t lock_countdown;  // nanoseconds that this thread may still wait for locks before a wait is sampled
  int64_t hold_countdown;  // nanoseconds that others may still wait for its locks before a hold is sampled
  uint64_t random;         // state of the thread's generator
  StackBounds stack_bounds;
  uint32_t epoch;           // Process::epoch when the thread was introduced; 0 = not yet
  uint16_t interval_index;  // which of the table's heap intervals heap_countdown was drawn from
  uint16_t labels;          // the number of its LabelSet (sampler/tables/label_sets.h); 0: none
  uint16_t samples;  // how many until one is timed (bits 0–7), and what else OwnTime keeps; differs after each one
  uint16_t scratch;  // 1 + the number of the scratch buffer that it has taken; 0 = none
  uint16_t calm_unlocks;   // while some lock is watched: how many more may pass before one has a closer look (see Calm)
  uint16_t tended;         // such unlocks, roughly, since some random number: whose turn it is of TendSlots
  uint16_t shard;          // its CounterShard
  bool muted;              // inside our own slow path, or an operator: nested calls are plain forwards
  bool heap_gap_is_event;  // a sample is due when heap_countdown runs out; else only a look at the options
  uint16_t ongoing_slot;   // 1 + the number of the slot that its last wait had; 0: it has not waited
  uint16_t owner;          // of rows (Row::owner); 0: the process had too many threads before this one
  // While an operator new of the program's runs on our behalf: what to go back to afterwards. See MuteForOperator.
  int64_t held_countdown;
  int64_t held_gap;
  CurrentWait current_wait;
  EndedWait ended_wait;
  const void* operators;   // interpose/heap/operators.cc: whose new this thread called last
  int thread_id;           // as the kernel says; 0 = not asked yet
  bool in_operator;        // muted for that call
  uint8_t preparing;       // its part of lock_preparing
  uint8_t stack_floor;     // lowest bits of the page from where on its stack can be used: see little_stack.cc
  bool noted : 1;          // in TableHeader::noted_threads
  bool throwing : 1;       // between the C++ runtime's entry point and the unwinder's: sampler/events/throws.h
  uint16_t long_waits;     // bits of WaitKind: the last wait of this kind outlasted kFirstPartNs
  uint16_t sampled_index;  // which of the heap intervals the sample that is being taken was drawn from
  uint16_t lock_index;     // which of the lock intervals lock_countdown was drawn from
  uint16_t hold_index;     // and hold_countdown
  uintptr_t entered_at;    // where the stack stood at the last EnterSlow: see there
};
static_assert(sizeof(ThreadState) == 256);

// The word in which the labels lie, beside what changes as rarely: what was remembered under other labels does not hold.
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

// Marks this thread as inside our own code. Nothing that needs a destructor lives across a call to a real function:
// set and cleared by hand.
inline void Mute(ThreadState& thread) { thread.muted = true; }
inline void Unmute(ThreadState& thread) { thread.muted = false; }

// This thread's id; 0 where it may not ask.
int ThreadId();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HOT_PATH_THREAD_STATE_H_
