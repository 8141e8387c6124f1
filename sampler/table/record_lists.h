// Lists of the table: a head, and in each record a link to the previous one. They only grow, at their heads.
//
// Any thread, also in signal handlers; lock-free.
#ifndef HOLDFAST_SAMPLER_TABLE_RECORD_LISTS_H_
#define HOLDFAST_SAMPLER_TABLE_RECORD_LISTS_H_

#include "sampler/table/shared_table.h"

namespace holdfast {

// Adds a record to the list at `head`, for readers only. `older`: the record's link in that list. Release: a thread
// that finds the offset finds the filled record.
template <typename T>
void Push(SharedTable* table, std::atomic<Offset>& head, T* record, Offset T::*older) {
  record->*older = head.load(std::memory_order_relaxed);
  while (!head.compare_exchange_weak(record->*older, table->OffsetOf(record), std::memory_order_release,
                                     std::memory_order_relaxed)) {
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_RECORD_LISTS_H_
