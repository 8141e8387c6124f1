// How long threads have waited for locks, all together, as a table says at this moment: waits that are over, and those that go on
// for as long as they have. Waits for work (conditions, joins, semaphores, bare futexes) are not among them.
//
// Read by copying some 40 KiB of the table's head: as often as a second. What makes no sense in a hostile table is bounded.
#ifndef HOLDFAST_REPORT_TRIGGERS_LOCK_DELAY_H_
#define HOLDFAST_REPORT_TRIGGERS_LOCK_DELAY_H_

#include <cstdint>
#include <optional>

#include "report/table/table_folder.h"

namespace holdfast {

// Nanoseconds since the process began. Nothing: the table cannot be read.
std::optional<uint64_t> LockDelayNs(const TableFile& table, int64_t now_ns);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TRIGGERS_LOCK_DELAY_H_
