// The sampled blocks that live: where each lies, how large it is, and how much it stands for. Snapshots only have their sums;
// who asks which of them are resident needs the places.
//
// Read from the table file as it is at that moment, while the program goes on: a block may be freed in between. What does not
// lie inside the file is left out. Any thread.
#ifndef HOLDFAST_REPORT_MEMORY_LIVE_BLOCKS_H_
#define HOLDFAST_REPORT_MEMORY_LIVE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "report/table/table_folder.h"
#include "sampler/contract/records.h"

namespace holdfast {

struct LiveBlock {
  uint64_t address;
  uint64_t bytes;     // as asked for
  uint64_t interval;  // under which it was sampled: see sampler/contract/weight.h
  Offset row = 0;     // that counts it
};

// By address.
absl::StatusOr<std::vector<LiveBlock>> ReadLiveBlocks(const TableFile& table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_LIVE_BLOCKS_H_
