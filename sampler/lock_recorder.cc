// The lock half of recorder.h.
#include "sampler/poisson_sampler.h"
#include "sampler/process.h"
#include "sampler/recorder.h"
#include "sampler/sample_stack.h"
#include "sampler/stack_table.h"
#include "sampler/weight.h"

namespace holdfast {
namespace {

// As in heap_recorder.cc.
uint64_t CurrentInterval(uint16_t* index) {
  Table* recorded = table();
  *index = 0;
  if (recorded == nullptr) return process.options.lock_interval_ns;
  TableHeader& head = *recorded->header();
  *index = static_cast<uint16_t>(NewestIndex(head.lock_interval_count.load(std::memory_order_acquire)));
  return head.lock_intervals[*index].interval;
}

void Capture(const CallerRegisters& caller, LockWait* wait) {
  ThreadState& thread = thread_state;
  if (!EnterSlow(thread)) return;
  Mute(thread);
  if (Table* recorded = GetTable()) {
    const OwnTime own_time(recorded, thread);
    Stack* stack = SampleStack(recorded, thread, caller);
    wait->row = FindRow(recorded, stack, ProfileKind::kBlock, wait->kind, 0);
    own_time.Add();
  } else {
    wait->no_table = true;
  }
  Unmute(thread);
}

}  // namespace

void BeginWait(const CallerRegisters& caller, WaitKind kind, bool may_wait_in_parts, LockWait* wait) {
  ThreadState& thread = thread_state;
  *wait = {};
  if (!EnterSlow(thread)) return;
  uint16_t index;
  const uint64_t interval = CurrentInterval(&index);
  if (interval == 0) return;
  wait->active = true;
  wait->interval = interval;
  if (UNLIKELY(index != thread.lock_index)) {  // changed since the countdown was drawn
    thread.lock_countdown = 0;
    thread.lock_index = index;
  }
  // Unlike bytes, waited time needs no look at the options now and then: a gap that was cut is drawn to its end.
  if (thread.lock_countdown <= 0) {
    Gap gap{};
    do {
      gap = DrawGap(interval, &thread.random, kLongestWaitGap);
      thread.lock_countdown += gap.length;
    } while (!gap.is_event && thread.lock_countdown < INT64_MAX / 2);
  }
  wait->budget_ns = thread.lock_countdown;
  wait->kind = kind;
  wait->share = interval <= kShareAllBelowNs || !may_wait_in_parts ? 1 : kShare;
  wait->start_ns = MonotonicNs();
  if (NextRandom(&thread.random) % wait->share != 0) return;
  Capture(caller, wait);
  const int64_t captured_ns = MonotonicNs();
  wait->capture_ns = captured_ns - wait->start_ns;
  wait->start_ns = captured_ns;
}

void StillWaiting(const CallerRegisters& caller, LockWait* wait) {
  wait->share = 1;
  if (wait->row == nullptr) Capture(caller, wait);
}

void EndWait(LockWait* wait) {
  if (!wait->active) return;
  ThreadState& thread = thread_state;
  const int64_t elapsed = MonotonicNs() - wait->start_ns;
  const uint64_t waited = elapsed > 0 ? static_cast<uint64_t>(elapsed) : 0;
  Table* recorded = table();
  if (recorded != nullptr) {
    CounterShard& counters = recorded->header()->counters[thread.shard];
    counters.contentions.fetch_add(1, std::memory_order_relaxed);
    counters.delay_ns.fetch_add(waited, std::memory_order_relaxed);
  } else {
    CountBeforeTable(&BeforeTable::contentions, 1);
    CountBeforeTable(&BeforeTable::delay_ns, waited);
  }
  const auto charged = static_cast<int64_t>(waited == 0 ? 1 : waited);
  thread.lock_countdown = wait->budget_ns - charged;
  if (thread.lock_countdown > 0) return;
  thread.lock_countdown = 0;  // drawn anew before the next wait
  if (wait->no_table) CountBeforeTable(&BeforeTable::lost_samples, 1);
  if (wait->row == nullptr || recorded == nullptr) return;  // the lot had not fallen on it
  const Weight weight = WeightOf(waited, wait->interval, 1.0 / wait->share);
  recorded->header()->counters[thread.shard].lock_samples.fetch_add(1, std::memory_order_relaxed);
  auto& sums = wait->row->sums;
  sums[kContentions].fetch_add(weight.count, std::memory_order_relaxed);
  sums[kDelay].fetch_add(weight.amount, std::memory_order_relaxed);
  sums[kLockSamples].fetch_add(1, std::memory_order_relaxed);
  AddDouble(&sums[kContentionsVariance], weight.count_variance);
  AddDouble(&sums[kDelayVariance], weight.amount_variance);
  uint64_t longest = sums[kLongest].load(std::memory_order_relaxed);
  while (longest < waited && !sums[kLongest].compare_exchange_weak(longest, waited, std::memory_order_relaxed)) {
  }
}

}  // namespace holdfast
