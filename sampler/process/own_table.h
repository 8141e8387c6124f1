// This process's table: made when it is first needed, and the counters until then.
//
//     none ──► being made (by one thread; others wait 100 ms at most) ──► made        a child of fork begins with none
//                                                                    └──► impossible: nothing is recorded any more
//
// Any thread, signal handlers; consequences of a sample run muted.
#ifndef HOLDFAST_SAMPLER_PROCESS_OWN_TABLE_H_
#define HOLDFAST_SAMPLER_PROCESS_OWN_TABLE_H_

#include <atomic>
#include <cstdint>

#include "sampler/hot_path/thread_state.h"
#include "sampler/process/process.h"
#include "sampler/table/shared_table.h"

namespace holdfast {

// Returns the table, made now if there is none yet. Null: none can be made.
SharedTable* GetTable();
// The same, for a thread that is not muted yet.
SharedTable* GetTableMuted(ThreadState& thread);
// The same, once the table has its final name (small_process.h) and its exporter is started, by another thread perhaps: waits
// about 100 ms at most. The calling thread is muted.
SharedTable* FinishedTable();
// The id of the output folder, in a process that does not see the folder. Holds for this table and for those of children.
void UseOutFolderId(FolderId id);
// For a child of fork: lets it make its own table, in the place of its parent's.
void AllowNewTable();

// Adds to a counter while there is no table. Also correct if another thread publishes the table meanwhile: nothing is
// lost or counted twice.
void CountBeforeTable(std::atomic<uint64_t> BeforeTable::*counter, uint64_t amount);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_OWN_TABLE_H_
