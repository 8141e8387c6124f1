// A row of a table, and what only some kinds have beside their rows: live threads, and the types of exceptions. The table may say anything.
#ifndef HOLDFAST_REPORT_TABLE_ROW_READER_H_
#define HOLDFAST_REPORT_TABLE_ROW_READER_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "report/table/snapshot.h"
#include "sampler/contract/layout.h"

namespace holdfast {

// Everything but `stack` and `times`. False: it is of no kind that there is.
bool ReadRowInfo(const Row& row, Offset place, RowInfo* info);

// `bytes`: the table, of which `limit` may hold records. What cannot be read is left out.
// `row_index`: by place, index into Snapshot::rows.
void ReadLiveThreads(const char* bytes, uint64_t limit, const absl::flat_hash_map<Offset, uint32_t>& row_index,
                     Snapshot* snapshot);
void ReadThrownTypes(const char* bytes, uint64_t limit, Snapshot* snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_ROW_READER_H_
