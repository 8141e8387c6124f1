// Adds a heap sample to its row.
#ifndef HOLDFAST_SAMPLER_RECORD_HEAP_SUMS_H_
#define HOLDFAST_SAMPLER_RECORD_HEAP_SUMS_H_

#include "sampler/contract/attributes.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/own_floats.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/table/in_use.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

inline CounterShard& ShardOf(SharedTable* table, const ThreadState& thread) {
  return table->header()->counters[thread.shard];
}

inline void AddSums(SharedTable* table, Row* row, int first_count, int first_variance, const Weight& weight) {
  AddTo(table, &row->sums[first_count], weight.count);
  AddTo(table, &row->sums[first_count + 1], weight.amount);
  AddDouble(&row->sums[first_variance], weight.count_variance);
  AddDouble(&row->sums[first_variance + 1], weight.amount_variance);
}
// Adds to a row that all threads share, and to the counters. Returns the weight in bytes, as Weight::amount.
inline uint64_t AddAlloc(SharedTable* table, const ThreadState& thread, Row* row, uint64_t bytes, uint64_t interval) {
  const OwnFloats floats;
  CounterShard& counters = ShardOf(table, thread);
  counters.alloc_calls.fetch_add(1, std::memory_order_relaxed);
  counters.alloc_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const Weight weight = WeightOf(bytes, interval);
  AddSums(table, row, kAllocObjects, kAllocObjectsVariance, weight);
  AddInUse(table, thread, weight.amount);
  return weight.amount;
}
inline void AddFree(SharedTable* table, const ThreadState& thread, Row* row, uint64_t bytes, uint64_t interval) {
  const OwnFloats floats;
  const Weight weight = WeightOf(bytes, interval);
  TakeInUse(table, thread, weight.amount);
  AddSums(table, row, kFreeObjects, kFreeObjectsVariance, weight);
  CounterShard& counters = ShardOf(table, thread);
  counters.free_calls.fetch_add(1, std::memory_order_relaxed);
  counters.free_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_HEAP_SUMS_H_
