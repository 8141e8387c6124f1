// The program's mapped ranges, and the Row of each: a skip list by address in the table (MappedRange in
// sampler/contract/mapped_ranges.h).
//
//     heads ──────────────────────► B ────────────►             every fourth is in the next level, too
//           ─► A ─────► A' ───────► B ──────► C ──►
//             row 1     row 1      row 2     row 1              A was cut in two: its pieces are a ring, and one object
//
// One thread changes it at a time (change_queue.h). A change takes about 100 ns among a thousand ranges. Ranges without
// room (the list may take a quarter of the table) are counted as mapped and immediately unmapped, and as a Loss.
#ifndef HOLDFAST_SAMPLER_TABLE_RANGE_LIST_H_
#define HOLDFAST_SAMPLER_TABLE_RANGE_LIST_H_

#include "sampler/table/mapping_change.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

void ApplyChange(SharedTable* table, const MappingChange& change);

// For a child of fork, which has a new table.
void ForgetRanges();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_RANGE_LIST_H_
