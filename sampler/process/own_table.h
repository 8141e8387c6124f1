// This process's table: made when it is first needed, and what is counted until there is one.
//
//     none ──► being made (by one thread; others wait 100 ms at most) ──► made        a child of fork begins with none
//                                                                    └──► impossible: nothing is recorded any more
//
// Any thread, signal handlers; what follows from a sample runs muted.
#ifndef HOLDFAST_SAMPLER_PROCESS_OWN_TABLE_H_
#define HOLDFAST_SAMPLER_PROCESS_OWN_TABLE_H_

#include <atomic>
#include <cstdint>

#include "sampler/hot_path/thread_state.h"
#include "sampler/process/process.h"
#include "sampler/tables/shared_table.h"

namespace holdfast {

// The table, made now if there is none yet. Null: none can be had.
SharedTable* GetTable();
// The same, for a thread that is not muted yet.
SharedTable* GetTableMuted(ThreadState& thread);
// Waits, at most 100 ms or so, for another thread that is still at it: it has the table, and starts the exporter.
void AwaitTableMade();
// In a child of fork: it may have a table of its own, in the place of its parent's.
void AllowNewTable();

// Adds to what is counted while there is no table. Also right when another thread publishes the table meanwhile: nothing
// is left behind, nothing is counted twice.
void CountBeforeTable(std::atomic<uint64_t> BeforeTable::*counter, uint64_t amount);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_OWN_TABLE_H_
