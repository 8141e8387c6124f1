// Single locks of a snapshot as records (message Locks of proto/holdfast.proto): which were waited for, how long, and who waited for
// whom. BuildProfile writes them into mutex and block profiles; `holdfast locks` reads them (report/analysis/locks/lock_list.h).
//
// Numbers of waits and holds are exact; those of pairs and sites are estimates. At most kMaxLocksWritten single locks and
// kMaxPairsWritten pairs are written, the longest delays first. A lock with a waiter at the snapshot is never left out for one
// without. The written locks add up to what the table counted.
#ifndef HOLDFAST_REPORT_BUILDER_WRITTEN_LOCKS_H_
#define HOLDFAST_REPORT_BUILDER_WRITTEN_LOCKS_H_

#include <functional>
#include <vector>

#include "report/observe/process_state.h"
#include "report/profile/lock_record_limits.h"
#include "report/profile/profile.h"
#include "report/profile/time_counts.h"

namespace holdfast {

// The locations of one of the snapshot's stacks, made in the profile if need be.
using FramesOfStack = std::function<std::vector<uint32_t>(uint32_t)>;

// The locks of a snapshot in the order of their numbers, from 1: the longest delay first.
std::vector<const LockInfo*> LocksToWrite(const ProcessState& state);

// Counts of a table; `fraction_bits`: 0, or kCountFractionBits of a row's.
TimeCounts CountsOf(const TimesInfo& times, int fraction_bits = 0);

// `earlier`: also who waited for whom before.
void AddLockRecords(const ProcessState& state, bool earlier, const FramesOfStack& frames, Profile* profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_WRITTEN_LOCKS_H_
