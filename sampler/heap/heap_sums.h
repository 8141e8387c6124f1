// What a heap sample adds to its row.
#ifndef HOLDFAST_SAMPLER_HEAP_HEAP_SUMS_H_
#define HOLDFAST_SAMPLER_HEAP_HEAP_SUMS_H_

#include "sampler/contract/attributes.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/tables/stack_table.h"

namespace holdfast {

inline CounterShard& ShardOf(SharedTable* table, const ThreadState& thread) {
  return table->header()->counters[thread.shard];
}

// More is in use than ever before. Of two threads at once the time is one's or the other's, nanoseconds apart.
HOLDFAST_COLD inline void NoteHighestSlow(HeapInUse* in_use, uint64_t now) {
  uint64_t highest = in_use->highest.load(std::memory_order_relaxed);
  while (now > highest) {
    if (!in_use->highest.compare_exchange_weak(highest, now, std::memory_order_relaxed)) continue;
    in_use->highest_ns.store(MonotonicNs(), std::memory_order_relaxed);
    return;
  }
}

inline void AddSums(SharedTable* table, Row* row, int first_count, int first_variance, const Weight& weight) {
  AddTo(table, &row->sums[first_count], weight.count);
  AddTo(table, &row->sums[first_count + 1], weight.amount);
  AddDouble(&row->sums[first_variance], weight.count_variance);
  AddDouble(&row->sums[first_variance + 1], weight.amount_variance);
}
// `amount`: in kAmountFractionBits. Of all blocks but those of the shadow map: of these the rows say what is in use.
inline void AddInUse(SharedTable* table, uint64_t amount) {
  HeapInUse& in_use = table->header()->in_use;
  const uint64_t now = in_use.now.fetch_add(amount, std::memory_order_relaxed) + amount;
  if (UNLIKELY(now > in_use.highest.load(std::memory_order_relaxed))) NoteHighestSlow(&in_use, now);
}
inline void TakeInUse(SharedTable* table, uint64_t amount) {
  table->header()->in_use.now.fetch_sub(amount, std::memory_order_relaxed);
}

// To a row of all threads, and to the counters.
inline void AddAlloc(SharedTable* table, const ThreadState& thread, Row* row, uint64_t bytes, uint64_t interval) {
  CounterShard& counters = ShardOf(table, thread);
  counters.alloc_calls.fetch_add(1, std::memory_order_relaxed);
  counters.alloc_bytes.fetch_add(bytes, std::memory_order_relaxed);
  const Weight weight = WeightOf(bytes, interval);
  AddSums(table, row, kAllocObjects, kAllocObjectsVariance, weight);
  AddInUse(table, weight.amount);
}
inline void AddFree(SharedTable* table, const ThreadState& thread, Row* row, uint64_t bytes, uint64_t interval) {
  const Weight weight = WeightOf(bytes, interval);
  TakeInUse(table, weight.amount);
  AddSums(table, row, kFreeObjects, kFreeObjectsVariance, weight);
  CounterShard& counters = ShardOf(table, thread);
  counters.free_calls.fetch_add(1, std::memory_order_relaxed);
  counters.free_bytes.fetch_add(bytes, std::memory_order_relaxed);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_HEAP_HEAP_SUMS_H_
