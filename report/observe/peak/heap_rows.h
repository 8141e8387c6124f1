// Reads the bytes in use of each heap row, without stacks, names or modules. 160,000 rows of g++ at interval 1 take 5
// ms; a snapshot takes a second and has the whole table in memory.
//
//    table  ── newest_row ──► Row ──► Row ──► …    only the rows added since the last call; collects their places
//           ── the places in order, with as few reads as possible ──► RowInUse
//
// The table is another program's file: every offset is checked, every walk is bounded, and it is read by copying. One
// thread.
#ifndef HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_ROWS_H_
#define HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "report/observe/peak/heap_moment.h"
#include "report/observe/peak/peak_state.h"
#include "sampler/contract/layout.h"

namespace holdfast {

class HeapRows {
 public:
  // Adds new rows. Returns false if the table cannot be read.
  bool Follow(int table);
  size_t known() const { return places_.size(); }
  // Reads all known rows that have bytes in use, in the table's order, and the sum of their bytes. Returns false if the
  // table cannot be read; `rows` is then unspecified.
  bool Read(int table, std::vector<RowInUse>* rows, uint64_t* bytes) const;
  // The same for what all known rows have allocated and freed. Only for rows that record every allocation.
  bool ReadSums(int table, std::vector<RowSums>* rows) const;

 private:
  // Calls `take(row, place)` for each known row, in the table's order.
  template <typename Take>
  bool ForEach(int table, Take take) const;

  std::vector<Offset> places_;          // sorted
  Offset newest_[kCounterShards] = {};  // newest known row of each shard
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_PEAK_HEAP_ROWS_H_
