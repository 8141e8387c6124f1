// Reads a row of a table, and what some kinds have beside their rows: live threads and exception types. The table is
// untrusted.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_ROW_READER_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_ROW_READER_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "report/observe/table/snapshot.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// Reads everything except `stack` and `times`. Returns false if the row's kind is invalid.
bool ReadRowInfo(const Row& row, Offset place, RowInfo* info);

// `bytes`: the table; its first `limit` bytes may contain records. Unreadable entries are skipped. `row_index`: index
// into TableSnapshot::rows for each row's place.
void ReadLiveThreads(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& row_index,
                     TableSnapshot* snapshot);
void ReadThrownTypes(const char* bytes, uint64_t limit, TableSnapshot* snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_ROW_READER_H_
