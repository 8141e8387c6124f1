// How long sampled blocks lived: recorded when they are freed, in the cells of their rows (AgeCell in records.h).
//
//     RecordAlloc ──► LiveSample: when, by which thread          one reading of the clock
//     RecordFree  ──► AddAge ──► Row ──► AgeCell                  another one, three to five additions
//
// Only sampled blocks pay. Any thread, signal handlers; lock-free. No room for a cell: counted as kAgesFull. Nothing is
// recorded with HOLDFAST_LIFETIMES=no, or if the clock may not be read.
#ifndef HOLDFAST_SAMPLER_RECORD_AGES_H_
#define HOLDFAST_SAMPLER_RECORD_AGES_H_

#include "sampler/hot_path/thread_state.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// For a block that `thread` has just allocated, after ThreadState::samples counted it.
LiveSample BornNow(ThreadState& thread, uint64_t bytes, Offset row, uint32_t interval_index);

// Call when the block is freed. `reallocated`: by a realloc, which allocates at once.
void AddAge(SharedTable* table, Row* row, const LiveSample& sample, bool reallocated);

// Returns the row beside a thread's own (kAgedOwner). Null: there is no room for it.
Row* AgedRowOf(SharedTable* table, Row* own);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_AGES_H_
