// With HOLDFAST_SKIP_SMALL, a process that ends soon and allocates little leaves no profile, and costs its exporter nothing.
//
// Its table is made under a name that no exporter serves, and renamed once the process has allocated enough or is a second
// old, or is about to lose the rights to do so. At its end it removes a table that is still under that name. One that was
// killed cannot; its table is renamed by an exporter that finds it, or by `collect`.
#ifndef HOLDFAST_SAMPLER_PROCESS_SMALL_PROCESS_H_
#define HOLDFAST_SAMPLER_PROCESS_SMALL_PROCESS_H_

#include <atomic>
#include <cstdint>

#include "sampler/contract/attributes.h"
#include "sampler/process/exporter_watch.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

//     kHidden ──► kBeingShown ──► kShown      kHidden ──► kDropped: the file is removed
enum class TableName : uint8_t { kShown, kHidden, kBeingShown, kDropped };
extern HOLDFAST_HIDDEN std::atomic<TableName> table_name;

inline bool TableIsHidden() { return table_name.load(std::memory_order_acquire) == TableName::kHidden; }

// Whether the table of this process is to be made hidden, if an exporter serves its folder: that one will show it.
bool BeginsHidden();
// After it was made. Called by the thread that made it.
void NoteHidden(bool hidden);
// Mapped memory counts as allocated here; the table's sums have only blocks.
void CountMappedBytes(uint64_t bytes);

// Gives a hidden table its final name and starts its exporter. The calling thread is muted, or the process ends.
void ShowTable();
// The same if the process is no longer small.
void ShowTableIfDue(SharedTable* table);
// Every thread calls it after a sample, muted.
inline void AfterSample(SharedTable* table) {
  UNLIKELY(TableIsHidden()) ? ShowTableIfDue(table) : WatchExporter(table);
}
// At the end of the process: removes the table's file if the process was small. False: there is a profile to be written, and
// the table has its final name.
bool DropTableIfSmall(SharedTable* table);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_PROCESS_SMALL_PROCESS_H_
