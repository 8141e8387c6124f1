// Common to samples of all kinds: taking the stack, and accounting for our own time. Inside the sampler only; the
// calling thread is muted.
#ifndef HOLDFAST_SAMPLER_CAPTURE_SAMPLE_STACK_H_
#define HOLDFAST_SAMPLER_CAPTURE_SAMPLE_STACK_H_

#include "sampler/capture/last_walk.h"
#include "sampler/capture/little_stack.h"
#include "sampler/capture/raw_memory.h"
#include "sampler/capture/scratch.h"
#include "sampler/capture/stack_trace.h"
#include "sampler/contract/clock.h"
#include "sampler/hot_path/timed_samples.h"
#include "sampler/table/label_sets.h"
#include "sampler/table/name_labels.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

// Call after a capture.
inline void NoteCapture(SharedTable* table, ThreadState& thread, uintptr_t low, bool truncated) {
  if (UNLIKELY(thread.stack_bounds.low != low))
    thread.stack_floor = static_cast<uint8_t>(thread.stack_bounds.low / kPageBytes);
  if (truncated) table->Count(Loss::kStackTruncated);
}

inline Stack* MissingStack(SharedTable* table) {
  table->Count(Loss::kStackMissing);
  return table->At<Stack>(table->header()->missing_stack);
}

// If the thread's name is one of its labels: reads the current name. A handler that sets labels in between takes
// precedence. With little stack left the thread keeps its old labels: making a set uses 1 KiB of stack.
HOLDFAST_COLD inline void SeeThreadName(ThreadState& thread) {
  if (LittleStackLeft(kStackForCapture)) return;
  uint16_t before = __atomic_load_n(&thread.labels, __ATOMIC_RELAXED);
  const uint16_t after = WithThreadName(before);
  if (after != before)
    __atomic_compare_exchange_n(&thread.labels, &before, after, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
inline void SeeThreadNameIfWanted(ThreadState& thread) {
  if (UNLIKELY(thread_label != ThreadLabel::kNo)) SeeThreadName(thread);
}

// Returns the interned stack of `caller`; the missing or the overflow stack if it cannot be had (counted).
inline Stack* SampleStack(SharedTable* table, ThreadState& thread, const CallerRegisters& caller) {
  StackTrace* trace = LittleStackLeft(kStackForCapture) ? nullptr : TakeScratch(thread);
  if (trace == nullptr) return MissingStack(table);
  const uintptr_t low = thread.stack_bounds.low;
  CaptureStack(caller, &thread.stack_bounds, trace);
  NoteCapture(table, thread, low, trace->truncated);
  SeeThreadNameIfWanted(thread);
  Stack* stack = InternStack(table, *trace, LabelFrame(table, thread.labels));
  ReturnScratch(thread);
  return stack;
}

// Walks as CaptureStack does, using the thread's last walk. kTrace: the stack is in `last`'s trace.
enum class Walked : uint8_t { kMissing, kTrace, kLast };
inline Walked WalkFromLast(SharedTable* table, ThreadState& thread, const CallerRegisters& caller, LastWalk* last) {
  if (LittleStackLeft(kStackForCapture)) return Walked::kMissing;
  const uintptr_t low = thread.stack_bounds.low;
  const bool is_last = CaptureStack(caller, &thread.stack_bounds, last->trace(), last);
  NoteCapture(table, thread, low, !is_last && last->trace()->truncated);
  return is_last ? Walked::kLast : Walked::kTrace;
}

// Our own time in samples, estimated from one sample in 64 (timed_samples.h): two readings of the clock would cost a
// tenth of what they measure. Includes preemption during a sample, as often as that happens. The thread's processor
// time would exclude it, but reading that is a system call.
class OwnTime {
 public:
  static constexpr uint32_t kOneIn = kTimedOneIn;
  OwnTime(SharedTable* table, ThreadState& thread) {
    if (LIKELY(IsUntimed(thread)))
      CountUntimed(thread);
    else
      Begin(table, thread);
  }
  // Whether this sample is measured; others need no clock.
  bool measured() const { return counter_ != nullptr; }
  int64_t start_ns() const { return start_ns_; }  // 0: not measured
  // Whether this is one of the blocks in kAgedOneIn that get an age when every allocation is recorded.
  bool is_aged() const { return is_aged_; }
  void Add() const {
    if (LIKELY(counter_ == nullptr)) return;
    // 0 is no time: the program may have forbidden itself the clock in between.
    if (const int64_t took = MonotonicNs() - start_ns_; took > 0)
      counter_->fetch_add(static_cast<uint64_t>(took) * kOneIn, std::memory_order_relaxed);
  }

 private:
  __attribute__((noinline)) void Begin(SharedTable* table, ThreadState& thread) {
    is_aged_ = DrawTimed(thread) % (kAgedOneIn / kOneIn) == 0;
    counter_ = &table->header()->counters[thread.shard].sample_ns;
    start_ns_ = MonotonicNs();
  }

  std::atomic<uint64_t>* counter_ = nullptr;
  int64_t start_ns_ = 0;
  bool is_aged_ = false;
};

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_CAPTURE_SAMPLE_STACK_H_
