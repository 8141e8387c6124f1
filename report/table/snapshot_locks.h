// The part of ReadSnapshot that reads single locks, pairs of holders and waiters, and the live block that a lock lies in.
#ifndef HOLDFAST_REPORT_TABLE_SNAPSHOT_LOCKS_H_
#define HOLDFAST_REPORT_TABLE_SNAPSHOT_LOCKS_H_

#include <atomic>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "report/table/snapshot.h"

namespace holdfast {

// What a counter of a table holds: nobody writes into our copy.
template <typename T>
T CounterValue(const std::atomic<T>& counter) {
  return counter.load(std::memory_order_relaxed);
}

// `bytes`: the table, of which the first `limit` may hold records. `stack_of_row`: index into snapshot->stacks.
absl::Status ReadLocks(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& stack_of_row,
                       Snapshot* snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_SNAPSHOT_LOCKS_H_
