// How long sampled blocks lived: noted when they are freed, in the cells of their rows (AgeCell in records.h).
//
//     RecordAlloc ──► LiveSample: when, by which thread          one reading of the clock
//     RecordFree  ──► AddAge ──► Row ──► AgeCell                  another one, three to five additions
//
// Only sampled blocks pay. Any thread, signal handlers; lock-free. No room for a cell: counted as kAgesFull. Nothing is noted where
// nobody wants it (HOLDFAST_LIFETIMES=no), or where the clock may not be read.
#ifndef HOLDFAST_SAMPLER_HEAP_AGES_H_
#define HOLDFAST_SAMPLER_HEAP_AGES_H_

#include "sampler/hot_path/thread_state.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// Of a block that `thread` has just allocated, after it has counted it in ThreadState::samples.
LiveSample BornNow(ThreadState& thread, uint64_t bytes, Offset row, uint32_t interval_index);

// The block is freed. `reallocated`: by a realloc, which allocates at once.
void AddAge(SharedTable* table, Row* row, const LiveSample& sample, bool reallocated);

// The row beside a thread's own (kAgedOwner). Null: there is no room for it.
Row* AgedRowOf(SharedTable* table, Row* own);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HEAP_AGES_H_
