// Single locks in a profile's comments: which were waited for, how long, and who waited for whom. Written by
// BuildProfile into mutex and block profiles, read by `holdfast locks` (report/analysis/lock_list.h). docs/format.md says the
// same.
//
//   lock 1: mutex 0x55d2c0a81040 contentions 120 delay_ns 5000000 longest_ns 90000 holds 80 hold_ns 4900000
//   lock 1 block: 64 bytes, 16 into it, stack 3        it lies in a live block that was sampled, allocated at that stack
//   lock 1 thread-local: 288                           it lies so far below a thread's own block, as its static variables do
//   lock 1 name: queue_mutex (server)                  added by the exporter where a symbol holds the address
//   lock 1 wait_times: 19456:90 212992:30              how many waits were how long (report/pprof/time_counts.h)
//   lock 1 hold_times: held_ns 2600000 longest_ns 61000 14336:41 57344:39     the same of holds, as far as somebody waited
//   lock 1 alone: 1900000                              of held_ns: the reader that let the waiter in was the only one
//   lock 1 waiting: 8 delay_ns 200000000 longest_ns 25000000      threads that wait for it now, and for how long so far
//   lock 65 locks: 3936 hottest_ns 1200000             a sum of locks that are not written singly: one kind, and one place of
//                                                      blocks from one stack; the address is that of the first
//   lock stack 3: 0x55d2c0901233 0x55d2c0901300        addresses of locations of this file, leaf first
//   lock site 4 mutex wait_times: longest_ns 90000 19456:87.50 212992:31.25    of waits at that stack, whichever the lock
//   lock site 3 mutex hold_times: longest_ns 61000 57344:38                    of holds that ended there
//   lock site 3 rwlock-write alone: 350000 of 400000                           of the delay of those holds: it was the only reader
//   lock pair 1: lock 1 holder 3 waiter 4 contentions 12.5 delay_ns 400000     stacks by number, - = not known
//
// Numbers of waits and holds are exact, those of pairs and sites are estimates. At most kMostLocksWritten locks singly and
// kMostPairsWritten pairs, the longest delays first; of locks none that somebody waits for now is left out for one that nobody
// does. All locks that are written add up to what the table counted.
#ifndef HOLDFAST_REPORT_LOCK_RECORDS_LOCK_COMMENTS_H_
#define HOLDFAST_REPORT_LOCK_RECORDS_LOCK_COMMENTS_H_

#include <functional>
#include <vector>

#include "report/pprof/lock_comment_limits.h"
#include "report/pprof/profile.h"
#include "report/pprof/time_counts.h"
#include "report/table/snapshot.h"

namespace holdfast {

// The locations of one of the snapshot's stacks, made in the profile if need be.
using FramesOfStack = std::function<std::vector<uint32_t>(uint32_t)>;

// The locks of a snapshot in the order of their numbers, from 1: the longest delay first.
std::vector<const LockInfo*> LocksToWrite(const Snapshot& snapshot);

// Counts of a table; `fraction_bits`: 0, or kCountFractionBits of a row's.
TimeCounts CountsOf(const TimesInfo& times, int fraction_bits = 0);

void AddLockComments(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LOCK_RECORDS_LOCK_COMMENTS_H_
