// Which ranges of addresses the program has mapped, and the Row of each: a skip list by address in the table (MappedRange in
// sampler/contract/mapped_ranges.h).
//
//     heads ──────────────────────► B ────────────►             every fourth is in the next level, too
//           ─► A ─────► A' ───────► B ──────► C ──►
//             row 1     row 1      row 2     row 1              A was cut in two: its pieces are a ring, and one object
//
// Changed by one thread at a time: change_queue.h sees to that. A change takes some 100 ns among a thousand ranges. What there is no
// room for (a quarter of the table) is counted as mapped and at once as unmapped, and as a Loss.
#ifndef HOLDFAST_SAMPLER_RANGES_RANGE_LIST_H_
#define HOLDFAST_SAMPLER_RANGES_RANGE_LIST_H_

#include "sampler/ranges/mapping_change.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

void ApplyChange(SharedTable* table, const MappingChange& change);

// In a child of fork, whose table is a new one.
void ForgetRanges();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RANGES_RANGE_LIST_H_
