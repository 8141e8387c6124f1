// Computes resident bytes of memory mapped without malloc, for each row of kind `map`: the program's own mappings, an
// allocator's, and glibc's heap and arenas.
//
//    a mapping of row 9:   [ block of row 2 | free | block of row 7 | free ]        row 9 has what no block covers
//
// Blocks are in rows of their own, so that the sum over all rows has each byte once. A sampled block represents 1/p
// blocks, and that much is subtracted. So mappings with blocks (has_blocks) are estimates like the blocks, while all
// others are exact to the page. If the estimate exceeds a row's mappings, the excess is subtracted from mappings made
// by the same function: an allocator in the program maps chunks from as many stacks as call malloc, and not every chunk
// contains a sampled block.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_RESIDENT_MAPPINGS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_RESIDENT_MAPPINGS_H_

#include <vector>

#include "report/base/time_budget.h"
#include "report/observe/memory/libc_mappings.h"
#include "report/observe/memory/live_blocks.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/memory/own_ranges.h"
#include "report/observe/memory/resident_rows.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

// Live blocks by address, and the pages of each.
struct LookedUpBlocks {
  const std::vector<LiveBlock>& blocks;
  const std::vector<PageTable::Share>& shares;
};
// `own`: also thread stacks; may overlap. Adds rows. Returns false, with nothing added, if `by` has passed.
bool AddResidentMappings(const std::vector<OwnRange>& own, const std::vector<LibcRanges>& libc,
                         const LookedUpBlocks& blocks, const TableSnapshot& snapshot, PageTable* pages,
                         const Deadline& by, std::vector<ResidentRow>* to);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_RESIDENT_MAPPINGS_H_
