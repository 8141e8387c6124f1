// The part of a snapshot that reads ongoing waits (OngoingWait in sampler/contract/layout.h).
//
// A wait is either in a slot or in its row, never in both: the thread returns its slot before it adds to the row, and
// the slots are copied again after everything else. A second copy detects torn slots: a slot that is equal in both
// copies, with the same turn, did not change in between. ReadRange puts the two copies in order.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_ONGOING_READER_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_ONGOING_READER_H_

#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

// Copies the slots again into a copy of a table with `used` bytes, and drops slots that change meanwhile. Returns the
// time of the copy: CLOCK_MONOTONIC.
int64_t ReadOngoingAgain(int fd, char* bytes, uint64_t used);

// Like the other parts of ReadSnapshot; invalid slots are skipped.
void ReadOngoing(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& stack_of_row,
                 TableSnapshot* snapshot);

// Reads only the slots. `place` is that of the row, which has the stack; 0: none yet. A thread that does not sleep may change
// its slot meanwhile.
std::vector<OngoingWaitInfo> ReadOngoingNow(int fd);

// Ends all waits at that time and drops waits that began later.
void EndOngoingAt(int64_t monotonic_ns, TableSnapshot* snapshot);
// Sets LockInfo::waiting of all locks, and adds locks that were not known. `now_ns`: CLOCK_MONOTONIC.
void CountWaitersOfLocks(const std::vector<OngoingWaitInfo>& waits, int64_t now_ns, std::vector<LockInfo>* locks);
// For an ended process: the latest time at which it is known to have been alive.
int64_t LastSignOfLife(const TableSnapshot& snapshot, int64_t now_ns);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_ONGOING_READER_H_
