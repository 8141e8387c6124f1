// What is resident of what was mapped without malloc, row by row of the kind `map`: of the program's own mappings, of those of an allocator
// and of glibc's heap and arenas.
//
//     a mapping of row 9:   [ block of row 2 | free | block of row 7 | free ]        row 9 has what no block takes of it
//
// Blocks are in their own rows, so that the sum over all rows has each byte once. A block that was sampled stands for 1/p, which is taken
// off: such mappings (has_blocks) are estimates as the blocks are, while all others are exact to the page. Where the estimate is
// larger than a row's mappings, the rest is taken off those that the same function mapped: an allocator in the program maps chunks by as
// many stacks as call malloc, and not in each one lies a sampled block.
#ifndef HOLDFAST_REPORT_MEMORY_RESIDENT_MAPPINGS_H_
#define HOLDFAST_REPORT_MEMORY_RESIDENT_MAPPINGS_H_

#include <vector>

#include "report/base/time_budget.h"
#include "report/memory/libc_mappings.h"
#include "report/memory/live_blocks.h"
#include "report/memory/mappings.h"
#include "report/memory/own_ranges.h"
#include "report/table/snapshot.h"

namespace holdfast {

// Live blocks, by address, and the pages of each.
struct LookedUpBlocks {
  const std::vector<LiveBlock>& blocks;
  const std::vector<PageTable::Share>& shares;
};
// `own`: also the stacks of threads; they may overlap. Adds to resident_rows; false: `by` has passed, and nothing was added.
bool AddResidentMappings(const std::vector<AddressRange>& own, const std::vector<LibcRanges>& libc,
                         const LookedUpBlocks& blocks, PageTable* pages, const Deadline& by, Snapshot* snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_RESIDENT_MAPPINGS_H_
