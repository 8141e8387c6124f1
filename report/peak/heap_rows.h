// What is in use by each heap row of a table, without stacks, names or modules: of g++'s 160,000 rows in 5 ms (at interval 1); a
// snapshot takes a second, and all of the table in memory.
//
//     table  ── newest_row ──► Row ──► Row ──► …    followed as far as rows have come since the last time: their places
//            ── places, in order, as few reads as that takes ──► RowInUse
//
// The table is another program's file: every offset is checked, every walk bounded, and it is read by copying. One thread.
#ifndef HOLDFAST_REPORT_PEAK_HEAP_ROWS_H_
#define HOLDFAST_REPORT_PEAK_HEAP_ROWS_H_

#include <cstdint>
#include <vector>

#include "report/peak/peak_state.h"
#include "sampler/contract/layout.h"

namespace holdfast {

class HeapRows {
 public:
  // Adds the rows that have come. False: the table cannot be read.
  bool Follow(int table);
  // All that were found of which something is in use now, in the order of the table, and their bytes. False: the table cannot be
  // read; `rows` may hold anything then.
  bool Read(int table, std::vector<RowInUse>* rows, uint64_t* bytes) const;

 private:
  std::vector<Offset> places_;          // sorted
  Offset newest_[kCounterShards] = {};  // of them, by shard
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PEAK_HEAP_ROWS_H_
