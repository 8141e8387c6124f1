// The part of ReadSnapshot that reads single locks, pairs of holders and waiters, the live block that contains a lock,
// and the durations of waits and holds.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_LOCKS_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_LOCKS_H_

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "report/observe/table/record_at.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

// Reads TimeHistograms: sampler/contract/records.h.
class TimesReader {
 public:
  // `bytes`: the table; its first `limit` bytes may contain records.
  TimesReader(const char* bytes, uint64_t limit)
      : bytes_(bytes),
        limit_(limit),
        histograms_left_(limit / sizeof(TimeHistogram)),
        parts_left_(limit / sizeof(TimePart)) {}

  // Reads the histogram at `offset`, which may be 0 (no counts) or kNoRoom.
  absl::Status Read(Offset offset, TimesInfo* times);

 private:
  const char* bytes_;
  uint64_t limit_;
  // Upper bounds for a valid table: each record belongs to one lock or row. A damaged table may refer to a record a
  // million times.
  uint64_t histograms_left_, parts_left_;
};

// `bytes`: the table; its first `limit` bytes may contain records. `stack_of_row`: index into
// snapshot->stacks.
absl::Status ReadLocks(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& stack_of_row,
                       TimesReader* times, TableSnapshot* snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_LOCKS_H_
