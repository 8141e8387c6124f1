// The part of ReadSnapshot that reads the ages of freed blocks (AgeCell) and of live blocks.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_AGES_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_AGES_H_

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

class AgesReader {
 public:
  // `bytes`: the table; its first `limit` bytes may contain records.
  AgesReader(const char* bytes, uint64_t limit) : bytes_(bytes), limit_(limit), cells_left_(limit / sizeof(AgeCell)) {}

  // Reads the cells of a row that does not belong to one thread.
  absl::Status ReadCells(const Row& row, uint32_t stack, TableSnapshot* snapshot);
  // Reads live samples. `stack_of_row`: index into snapshot->stacks.
  void ReadAlive(const absl::flat_hash_map<Offset, uint32_t>& stack_of_row, TableSnapshot* snapshot) const;

 private:
  const char* bytes_;
  uint64_t limit_;
  uint64_t cells_left_;  // upper bound for a valid table; a longer list is cyclic
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_SNAPSHOT_AGES_H_
