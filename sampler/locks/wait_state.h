// What is known of a wait, and how it comes to be sampled. The sampler's only: wrappers see LockWait (waits.h).
//
// The stack must be captured while the thread waits: before it, it is a cost to every wait; after it, the program holds
// its lock. And whether it is captured must not depend on whether the wait will be sampled, as a capture lengthens a short
// wait several times over (by then the lock has been let go and taken again), and estimates would be biased. So:
//   at the start            a wait at a call site (lock, caller, height of the stack) where this thread's stack is known is not
//                           captured, only one in kLookAgain, randomly chosen, to see whether it still is the same stack.
//                           But it is where this thread's last wait outlasted kFirstPartNs: this one most likely will, too.
//                           The first wait at a call site is captured. Where there is no room to remember call sites, or
//                           another one had it, one in kShare is, randomly chosen; all where it cannot be captured later
//                           (below);
//   after kFirstPartNs      of those every wait that is still not over is captured (the wait is cut in two by a deadline, which
//                           makes waking up a few microseconds slower: so not elsewhere);
//   at the end              a wait that was captured for sure, or whose stack was known, is sampled with p = 1 − exp(−w/R): also
//                           one that was captured to look again, as the exact counters have it, and it may be a long one.
//                           The others with p·chance, if they were chosen.
// With an interval of at most kShareAllBelowNs every wait is chosen. What cannot be waited for in parts is captured
// at every unknown call site, so that a wait that never ends has its stack, and every time when the thread's last wait of that
// kind was a long one. All of this is known before the wait begins, so it is no bias; and a long wait weighs as one, not
// as the kShare that it was chosen from: a single wait of 30 ms would be seen as 120, or not at all.
#ifndef HOLDFAST_SAMPLER_LOCKS_WAIT_STATE_H_
#define HOLDFAST_SAMPLER_LOCKS_WAIT_STATE_H_

#include <cstdint>

#include "sampler/contract/layout.h"
#include "sampler/hot_path/lock_slots.h"
#include "sampler/hot_path/thread_state.h"

namespace holdfast {

struct WaitState {
  int64_t start_ns;          // CLOCK_MONOTONIC; later by what our own work lengthened it
  int64_t budget_ns;         // to the thread's next event: sampled if the wait lasts that long
  uint64_t interval;         // that was in force when it began
  int64_t capture_start_ns;  // of a capture that EnterWait has not taken off yet; 0 = none
  int64_t capture_end_ns;
  const void* holder;    // what it waits for, as BeginWait was told
  LockRecord* record;    // of that lock; null: none
  LockPairRecord* pair;  // where a sample of this wait goes, beside the row
  LockSlot* slot;        // where holders see that somebody waits; null: they do not
  Row* row;              // where the sample goes; null while no stack is known
  Stack* stack;          // whose row it is
  OngoingWait* ongoing;  // its slot among the waits that go on; null: it has none
  CurrentWait outer;     // that this one interrupted (in a signal handler)
  WaitKind kind;
  bool active;    // false: this thread or process does not record; just call the real function
  bool in_parts;  // wait until start_ns + kFirstPartNs, then call StillWaiting if it is not over
  uint8_t known;  // 1 + the number of its call site among those that this thread knows; 0: not looked for
  bool sampled;   // if one is due: the row is known, and our own work did not lengthen it
  float chance;   // that of a wait like this one, before the choice; 0: only holders are wanted
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_LOCKS_WAIT_STATE_H_
