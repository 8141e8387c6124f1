// The part of a snapshot that reads the waits that go on (OngoingWait in sampler/contract/layout.h).
//
// A wait is either here or in its row, never in both: the thread gives its slot back before it adds to the row, and the
// slots are copied once more after everything else. Torn slots are seen by a second copy: what was the same in both, with
// the same turn, was so in between.
#ifndef HOLDFAST_REPORT_TABLE_ONGOING_READER_H_
#define HOLDFAST_REPORT_TABLE_ONGOING_READER_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "report/table/snapshot.h"

namespace holdfast {

// Into the copy of a table, of `used` bytes: the slots anew, without those that change meanwhile. When: CLOCK_MONOTONIC.
int64_t ReadOngoingAgain(int fd, char* bytes, uint64_t used);

// As the other parts of ReadSnapshot; what makes no sense is left out.
void ReadOngoing(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& stack_of_row,
                 Snapshot* snapshot);

// The waits lasted up to then; those that had not begun are left out.
void EndOngoingAt(int64_t monotonic_ns, Snapshot* snapshot);
// LockInfo::waiting of all locks; those of which nothing was known are added.
void CountWaitersOfLocks(Snapshot* snapshot);
// Of a process that has ended: when it still lived, as far as is known.
int64_t LastSignOfLife(const Snapshot& snapshot, int64_t now_ns);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_ONGOING_READER_H_
