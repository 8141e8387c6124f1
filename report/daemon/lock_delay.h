// Returns how long all threads together have waited for locks, according to a table: finished waits, and ongoing waits
// up to now. Waits for work (conditions, joins, semaphores, bare futexes) are excluded.
//
// Copies about 40 KiB of the table's head, up to once a second. Invalid values in a hostile table are bounded.
#ifndef HOLDFAST_REPORT_DAEMON_LOCK_DELAY_H_
#define HOLDFAST_REPORT_DAEMON_LOCK_DELAY_H_

#include <cstdint>
#include <optional>

#include "report/observe/table/table_folder.h"

namespace holdfast {

// Nanoseconds since the process began. Nothing: the table cannot be read.
std::optional<uint64_t> LockDelayNs(const TableFile& table, int64_t now_ns);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_LOCK_DELAY_H_
