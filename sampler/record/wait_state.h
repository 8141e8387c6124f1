// The state of a wait, and how waits are sampled. For the sampler only: wrappers see LockWait (waits.h).
//
// The stack must be captured while the thread waits: before, a capture delays every wait; after, it lengthens the hold.
// And whether a wait is captured must not depend on whether it will be sampled: a capture lengthens a short wait
// several times over (meanwhile the lock is released and taken again), so estimates would be biased. So:
//   at the start            a wait at a call site (lock, caller, stack height) with a known stack of this thread is not
//                           captured, except one in kLookAgain, chosen at random, to check the stack. If this thread's last
//                           wait there outlasted kFirstPartNs, it is captured: this one is likely to be long, too.
//                           The first wait at a call site is captured. If there is no room to remember call sites, or another
//                           one had the entry, one in kShare is, chosen at random; all are if they cannot be captured later
//                           (below);
//   after kFirstPartNs      every one of these that still waits is captured (a deadline splits the wait, which
//                           makes waking up a few microseconds slower: so only here);
//   at the end              a wait that was captured for certain, or has a known stack, is sampled with p = 1 − exp(−w/R),
//                           including one captured as a check: the exact counters include it, and it may be long.
//                           The others are sampled with p·chance, if they were chosen.
//
// With an interval of at most kShareAllBelowNs every wait is chosen. Waits that cannot be split are captured at every
// unknown call site, so that a wait that never ends has its stack, and always if the thread's last wait of that kind
// was long. All of this is known before the wait begins, so there is no bias. And a long wait counts as one, not as the
// kShare from which it was chosen: otherwise a single wait of 30 ms would count as 120 ms, or not at all.
#ifndef HOLDFAST_SAMPLER_RECORD_WAIT_STATE_H_
#define HOLDFAST_SAMPLER_RECORD_WAIT_STATE_H_

#include <cstdint>

#include "sampler/contract/layout.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

struct WaitState {
  int64_t start_ns;          // CLOCK_MONOTONIC; later by our own work
  int64_t budget_ns;         // to the thread's next event: the wait is sampled if it lasts that long
  uint64_t interval;         // in force at the start
  int64_t capture_start_ns;  // of a capture that EnterWait has not subtracted yet; 0 = none
  int64_t capture_end_ns;
  const void* holder;    // the lock, as passed to BeginWait
  LockRecord* record;    // of that lock; null: none
  LockPairRecord* pair;  // pair for a sample of this wait, beside the row
  LockSlot* slot;        // shows holders that a thread waits; null: not shown
  Row* row;              // row for the sample; null while no stack is known
  Stack* stack;          // the row's stack
  OngoingWait* ongoing;  // its slot among the waits in progress; null: none
  CurrentWait outer;     // the wait that this one interrupted (in a signal handler)
  WaitKind kind;
  bool active;    // false: this thread or process does not record; just call the real function
  bool in_parts;  // wait until start_ns + kFirstPartNs, then call ContinueWait if it is not over
  uint8_t known;  // 1 + the number of its known call site in this thread; 0: not searched
  bool sampled;   // if one is due: the row is known, and our own work did not lengthen it
  float chance;   // of such a wait, before the choice; 0: only holders are wanted
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_WAIT_STATE_H_
