// The part of ReadSnapshot that reads how old blocks were when they were freed (AgeCell), and how old those are that live.
#ifndef HOLDFAST_REPORT_TABLE_SNAPSHOT_AGES_H_
#define HOLDFAST_REPORT_TABLE_SNAPSHOT_AGES_H_

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "report/table/snapshot.h"

namespace holdfast {

class AgesReader {
 public:
  // `bytes`: the table, of which the first `limit` may hold records.
  AgesReader(const char* bytes, uint64_t limit) : bytes_(bytes), limit_(limit), cells_left_(limit / sizeof(AgeCell)) {}

  // The cells of a row that is no thread's own.
  absl::Status ReadCells(const Row& row, uint32_t stack, Snapshot* snapshot);
  // Live samples, by `stack_of_row`: index into snapshot->stacks.
  void ReadAlive(const absl::flat_hash_map<Offset, uint32_t>& stack_of_row, Snapshot* snapshot) const;

 private:
  const char* bytes_;
  uint64_t limit_;
  uint64_t cells_left_;  // what an honest table can hold; a list that goes on longer goes round in a circle
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_SNAPSHOT_AGES_H_
