// The rows of a stack, in the table file: one for each size class, or kind of wait.
//
// Any thread, also in signal handlers; lock-free. Two threads that add the same row at the same time agree on one.
#ifndef HOLDFAST_SAMPLER_TABLE_STACK_ROWS_H_
#define HOLDFAST_SAMPLER_TABLE_STACK_ROWS_H_

#include "sampler/table/shared_table.h"

namespace holdfast {

// Returns the row of `stack` for heap samples of a size class, or for waits of a kind: one that is not full. If the
// table is full: the profile's overflow row (counted).
Row* FindRow(SharedTable* table, Stack* stack, ProfileKind profile, WaitKind wait, uint16_t size_class);
// The same for kinds other than heap and locks. `mark`: the MappingKind, or ThrownBits; `number`: as Row::size_class.
Row* FindMarkedRow(SharedTable* table, Stack* stack, ProfileKind profile, uint8_t mark, uint16_t number);

// The same for heap samples at interval 1: a row in which only `owner` allocates. Null: the table is full.
Row* FindOwnRow(SharedTable* table, Stack* stack, uint8_t owner, uint16_t size_class);
// The owner's rows of the overflow stack: one for all blocks with their size in the shadow map (kNoSizeClass), and one
// for each smaller size, which the row itself implies (ShadowChunk). Null: not made while there was room.
Row* OwnOverflowRow(SharedTable* table, uint8_t owner, uint16_t size_class);
void MakeOwnOverflowRows(SharedTable* table, uint8_t owner);

// Adds a heap row to the list of all rows (RecordShard::newest_row).
void NoteRow(SharedTable* table, Row* row);

// Makes the overflow and the missing stack of a new table, and the overflow rows. False: no room even for them.
bool MakeSpecialStacks(SharedTable* table);

// Whether the row takes no more samples. Checks the first two sums, of allocations or waits: frees never exceed them.
inline bool IsFull(const Row& row) {
  return (row.sums[0].load(std::memory_order_relaxed) | row.sums[1].load(std::memory_order_relaxed)) >= kFullSum;
}

// Adds to a sum, unless it is full for good (counted).
inline void AddTo(SharedTable* table, std::atomic<uint64_t>* sum, uint64_t by) {
  // Relaxed: each sum is independent. Threads that add at once may exceed kMaxSum, but by far too little to overflow.
  if (UNLIKELY(sum->load(std::memory_order_relaxed) >= kMaxSum)) return table->Count(Loss::kSumFull);
  sum->fetch_add(by, std::memory_order_relaxed);
}

// Adds to a sum with the bits of a double.
void AddDouble(std::atomic<uint64_t>* sum, double value);

// For a child of fork; called by ForgetStacks.
void ForgetRows();
// Called by PrepareStacks.
void PrepareRows(SharedTable* table);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_STACK_ROWS_H_
