// Estimates the bytes in use of a process's heap at a snapshot: `holdfast ls` and the server's list print them.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_IN_USE_BYTES_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_IN_USE_BYTES_H_

#include <cstdint>

#include "report/observe/table/snapshot.h"

namespace holdfast {

inline int64_t InUseBytesOf(const TableSnapshot& snapshot) {
  double bytes = 0;
  for (const RowInfo& row : snapshot.rows) {
    if (row.profile == ProfileKind::kHeap) bytes += row.sums[kAllocSpace] - row.sums[kFreeSpace];
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_IN_USE_BYTES_H_
