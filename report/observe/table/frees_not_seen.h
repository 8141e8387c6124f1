// The library does not see the frees of a module that calls another free (kModuleFreesElsewhere). Blocks that the
// library allocated for such a module count as freed, so that none is reported as a leak. They are added up separately.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_FREES_NOT_SEEN_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_FREES_NOT_SEEN_H_

#include "report/observe/table/snapshot.h"

namespace holdfast {

// Counts blocks in use as freed if the innermost frame outside libc is in such a module. TableSnapshot::frees_not_seen gets
// the sums.
void CountFreesNotSeen(TableSnapshot* snapshot);
// Returns whether this applies to a stack: index into TableSnapshot::stacks.
bool IsFreedUnseen(const TableSnapshot& snapshot, uint32_t stack);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_FREES_NOT_SEEN_H_
