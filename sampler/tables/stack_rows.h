// The rows of a stack, in the table file: one for each size class, or kind of wait, that it came with.
//
// Any thread, also in signal handlers; lock-free. Two threads that add the same row at the same time agree on one.
#ifndef HOLDFAST_SAMPLER_TABLES_STACK_ROWS_H_
#define HOLDFAST_SAMPLER_TABLES_STACK_ROWS_H_

#include "sampler/tables/shared_table.h"

namespace holdfast {

// The row of `stack` for heap samples of a size class, or for waits of a kind: one that is not full. When the table is full:
// the profile's overflow row (counted).
Row* FindRow(SharedTable* table, Stack* stack, ProfileKind profile, WaitKind wait, uint16_t size_class);
// The same of other kinds than heap and locks. `mark`: the MappingKind, or ThrownBits; `number`: as Row::size_class.
Row* FindMarkedRow(SharedTable* table, Stack* stack, ProfileKind profile, uint8_t mark, uint16_t number);

// The same for heap samples at interval 1, a row that `owner` alone allocates in. Null: the table is full.
Row* FindOwnRow(SharedTable* table, Stack* stack, uint8_t owner, uint16_t size_class);
// Those of the overflow stack: one of all blocks that have their size in the shadow map (kNoSizeClass), and one for each smaller size, which
// the row itself says there (ShadowChunk). Null: it was not asked for while there was room.
Row* OwnOverflowRow(SharedTable* table, uint8_t owner, uint16_t size_class);
void MakeOwnOverflowRows(SharedTable* table, uint8_t owner);

// Adds a heap row to the list of all (RecordShard::newest_row).
void NoteRow(SharedTable* table, Row* row);

// Makes the overflow and the missing stack of a new table, and the overflow rows. False: no room even for them.
bool MakeSpecialStacks(SharedTable* table);

// Takes no more samples. By the first two sums, which are those of what was allocated or waited: what is freed is never more.
inline bool IsFull(const Row& row) {
  return (row.sums[0].load(std::memory_order_relaxed) | row.sums[1].load(std::memory_order_relaxed)) >= kFullSum;
}

// Adds to a sum, unless it is full for good (counted).
inline void AddTo(SharedTable* table, std::atomic<uint64_t>* sum, uint64_t by) {
  // Relaxed: each sum stands for itself. Threads that come together may exceed kMostSum, by far less than to its end.
  if (UNLIKELY(sum->load(std::memory_order_relaxed) >= kMostSum)) return table->Count(Loss::kSumFull);
  sum->fetch_add(by, std::memory_order_relaxed);
}

// Adds to a sum that holds the bits of a double.
void AddDouble(std::atomic<uint64_t>* sum, double value);

// In a child of fork, as ForgetStacks, which calls it.
void ForgetRows();

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_STACK_ROWS_H_
