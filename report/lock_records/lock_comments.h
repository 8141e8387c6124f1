// Single locks in a profile's comments: which were contended, for how long, and who waited for whom. BuildProfile
// writes them into mutex and block profiles; `holdfast locks` reads them (report/analysis/lock_list.h). docs/format.md
// has the same description.
//
//   lock 1: mutex 0x55d2c0a81040 contentions 120 delay_ns 5000000 longest_ns 90000 holds 80 hold_ns 4900000
//   lock 1 block: 64 bytes, 16 into it, stack 3        it is in a live, sampled block that was allocated at that stack
//   lock 1 thread-local: 288                           it is this far below a thread's own block, as its static variables are
//   lock 1 name: queue_mutex (server)                  added by the exporter if a symbol contains the address
//   lock 1 wait_times: 19456:90 212992:30              histogram of the lengths of waits (report/pprof/time_counts.h)
//   lock 1 hold_times: held_ns 2600000 longest_ns 61000 14336:41 57344:39     the same for holds during which somebody waited
//   lock 1 alone: 1900000                              part of held_ns: only one reader held it, which then let the waiter in
//   lock 1 waiting: 8 delay_ns 200000000 longest_ns 25000000      threads that wait for it now, and for how long so far
//   lock 65 locks: 3936 hottest_ns 1200000             a sum of locks that are not written singly: one kind, and one place in
//                                                      blocks from one stack; the address is that of the first
//   lock stack 3: 0x55d2c0901233 0x55d2c0901300        addresses of locations of this file, leaf first
//   lock site 4 mutex wait_times: longest_ns 90000 19456:87.50 212992:31.25    of waits at that stack, for any lock
//   lock site 3 mutex hold_times: longest_ns 61000 57344:38                    of holds that ended there
//   lock site 3 rwlock-write alone: 350000 of 400000                           part of the delay of those holds: a single reader
//   lock pair 1: lock 1 holder 3 waiter 4 contentions 12.5 delay_ns 400000     stacks by number, - = unknown
//
// Waits and holds are exact; pairs and sites are estimates. At most kMostLocksWritten single locks and
// kMostPairsWritten pairs are written, the longest delays first. A lock that somebody waits for now takes precedence
// over locks without a waiter. All written locks add up to what the table counted.
#ifndef HOLDFAST_REPORT_LOCK_RECORDS_LOCK_COMMENTS_H_
#define HOLDFAST_REPORT_LOCK_RECORDS_LOCK_COMMENTS_H_

#include <functional>
#include <vector>

#include "report/pprof/lock_comment_limits.h"
#include "report/pprof/profile.h"
#include "report/pprof/time_counts.h"
#include "report/table/snapshot.h"

namespace holdfast {

// Returns the locations of one of the snapshot's stacks. Adds them to the profile if necessary.
using FramesOfStack = std::function<std::vector<uint32_t>(uint32_t)>;

// Returns the locks of a snapshot in the order of their numbers, from 1: the longest delay first.
std::vector<const LockInfo*> LocksToWrite(const Snapshot& snapshot);

// Converts counts of a table. `fraction_bits`: 0, or kCountFractionBits for the counts of a row.
TimeCounts CountsOf(const TimesInfo& times, int fraction_bits = 0);

void AddLockComments(const Snapshot& snapshot, const FramesOfStack& frames, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_LOCK_RECORDS_LOCK_COMMENTS_H_
