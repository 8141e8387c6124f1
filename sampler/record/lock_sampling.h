// Shared by waits and holds: the interval in force, counters, and adding a sample to its row. Inside the sampler only.
#ifndef HOLDFAST_SAMPLER_RECORD_LOCK_SAMPLING_H_
#define HOLDFAST_SAMPLER_RECORD_LOCK_SAMPLING_H_

#include "sampler/contract/poisson_sampler.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/own_floats.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/process/process.h"
#include "sampler/record/lock_times.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

// The interval in force: the newest, which can be changed from outside. Updates the countdown: draws the gap to the
// next event if the last one has come, or if the interval was changed since. 0 = off, nothing was drawn.
inline uint64_t PrepareLockCountdown(SharedTable* table, int64_t* countdown, uint16_t* interval_index,
                                     uint64_t* random) {
  TableHeader& head = *table->header();
  const auto newest = static_cast<uint16_t>(NewestIndex(head.lock_interval_count.load(std::memory_order_acquire)));
  const uint64_t interval = head.lock_intervals[newest].interval;
  if (UNLIKELY(newest != *interval_index)) {
    *countdown = 0;
    *interval_index = newest;
  }
  if (interval == 0 || *countdown > 0) return interval;
  *countdown = 0;
  const OwnFloats floats;
  Gap gap{};
  do {
    gap = DrawGap(interval, random, kUncutGap);
    *countdown += gap.length;
  } while (!gap.is_event && *countdown < INT64_MAX / 2);
  return interval;
}

inline bool Wanted(SharedTable* table, ProfileKind kind) {
  return (__atomic_load_n(&table->header()->profiles, __ATOMIC_RELAXED) & KindBit(kind)) != 0;
}

inline LockCounters& LockCountersOf(SharedTable* table, const ThreadState& thread) {
  return table->header()->lock_counters[thread.shard];
}

// Returns the row of a lock's samples at this stack.
inline Row* FindLockRow(SharedTable* table, Stack* stack, ProfileKind profile, WaitKind kind,
                        const LockRecord* record) {
  const uint16_t number = process.options.lock_label && record != nullptr ? record->number : 0;
  return FindRow(table, stack, profile, kind, number);
}

// A full sum does not change; readers report it.
inline void Count(std::atomic<uint64_t> (&counters)[kWaitKinds], WaitKind kind, uint64_t by) {
  std::atomic<uint64_t>& counter = counters[static_cast<int>(kind)];
  if (LIKELY(counter.load(std::memory_order_relaxed) < kMaxSum)) counter.fetch_add(by, std::memory_order_relaxed);
}

inline void RaiseTo(std::atomic<uint64_t>* longest, uint64_t ns) {
  uint64_t known = longest->load(std::memory_order_relaxed);
  while (known < ns && !longest->compare_exchange_weak(known, ns, std::memory_order_relaxed)) {
  }
}

// Whether a thread holds it, or wakes waiters: an address that holders search.
inline bool HasHolder(WaitKind kind) {
  return kind == WaitKind::kMutex || kind == WaitKind::kRwlockRead || kind == WaitKind::kRwlockWrite ||
         kind == WaitKind::kSpin || kind == WaitKind::kFutex || kind == WaitKind::kCustom;
}

// For a wait or hold of `ns`. `length_ns`: the same for a wait; for a hold, how long the lock was held.
inline void AddLockSample(SharedTable* table, Row* row, uint64_t ns, uint64_t length_ns, const Weight& weight) {
  auto& sums = row->sums;
  AddTo(table, &sums[kContentions], weight.count);
  AddTo(table, &sums[kDelay], weight.amount);
  sums[kLockSamples].fetch_add(1, std::memory_order_relaxed);
  AddDouble(&sums[kContentionsVariance], weight.count_variance);
  AddDouble(&sums[kDelayVariance], weight.amount_variance);
  RaiseTo(&sums[kLongest], length_ns);
  AddTime(table, &sums[kTimes], length_ns, weight.count);
}

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_RECORD_LOCK_SAMPLING_H_
