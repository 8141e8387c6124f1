// The library cannot see the frees of a module that calls another free (kModuleFreesElsewhere). Blocks that the library allocated for such
// a module count as freed, so that none is reported as a leak, and are summed up apart.
#ifndef HOLDFAST_REPORT_TABLE_FREES_NOT_SEEN_H_
#define HOLDFAST_REPORT_TABLE_FREES_NOT_SEEN_H_

#include "report/table/snapshot.h"

namespace holdfast {

// Counts as freed what stacks have in use if their innermost frame outside of libc is in such a module. Snapshot::frees_not_seen has the
// sums.
void CountFreesNotSeen(Snapshot* snapshot);
// Whether the stack is such a one: index into Snapshot::stacks.
bool IsFreedUnseen(const Snapshot& snapshot, uint32_t stack);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_FREES_NOT_SEEN_H_
