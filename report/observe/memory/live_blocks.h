// The sampled live blocks: the address, size and weight of each. A snapshot has only their sums; the addresses are
// needed to find resident blocks.
//
// Reads the table file while the program runs, so a block may be freed meanwhile. Skips records outside the file. Any
// thread.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_LIVE_BLOCKS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_LIVE_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/records.h"

namespace holdfast {

struct LiveBlock {
  uint64_t address;
  uint64_t bytes;     // the requested size
  uint64_t interval;  // the sampling interval in force: see sampler/contract/weight.h
  Offset row = 0;     // the row that counts it
};

// Sorted by address.
absl::StatusOr<std::vector<LiveBlock>> ReadLiveBlocks(const TableFile& table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_LIVE_BLOCKS_H_
