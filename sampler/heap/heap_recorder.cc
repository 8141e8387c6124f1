#include "sampler/contract/poisson_sampler.h"
#include "sampler/contract/weight.h"
#include "sampler/heap/ages.h"
#include "sampler/heap/exact.h"
#include "sampler/heap/heap.h"
#include "sampler/heap/heap_sums.h"
#include "sampler/hot_path/timed_samples.h"
#include "sampler/process/enter.h"
#include "sampler/process/exporter_watch.h"
#include "sampler/process/noted_threads.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/stacks/little_stack.h"
#include "sampler/stacks/module_table.h"
#include "sampler/stacks/remembered_stack.h"
#include "sampler/tables/stack_table.h"

namespace holdfast {
namespace {

// The interval in force: the table's newest, so that it can be changed from outside; before there is a table, the option.
uint64_t CurrentInterval(uint32_t* index) {
  SharedTable* recorded = table();
  *index = 0;
  if (recorded == nullptr) return process.options.heap_interval;
  TableHeader& head = *recorded->header();
  *index = NewestIndex(head.heap_interval_count.load(std::memory_order_acquire));
  return head.heap_intervals[*index].interval;
}

uint64_t IntervalAt(SharedTable* recorded, uint32_t index) {
  return recorded->header()->heap_intervals[index].interval;
}

void CountBytes(const ThreadState& thread, uint64_t bytes) {
  if (bytes == 0) return;
  if (SharedTable* recorded = table()) {
    ShardOf(recorded, thread).alloc_bytes.fetch_add(bytes, std::memory_order_relaxed);
  } else {
    CountBeforeTable(&BeforeTable::alloc_bytes, bytes);
  }
}

// Not enough stack is left to record one.
void LoseSample(const ThreadState& thread) {
  if (SharedTable* recorded = table()) {
    recorded->Count(Loss::kStackMissing);
    ShardOf(recorded, thread).alloc_calls.fetch_add(1, std::memory_order_relaxed);
  } else {
    CountBeforeTable(&BeforeTable::lost_samples, 1);
  }
}

// This thread has found another interval than before. Below some size samples cannot all lie at tagged addresses.
HOLDFAST_COLD void UseInterval(uint64_t interval) {
  if (interval != 0 && interval < kSmallestTagged) GiveUpTag();
}

}  // namespace

bool HeapEventDue(size_t bytes) {
  ThreadState& thread = thread_state;
  const uint32_t before = thread.epoch;
  if (!EnterSlow(thread)) {
    // Switched off: far away from the next look. Or a signal handler inside a sample of this thread: its event is lost,
    // and the next gap is drawn as after any other.
    constexpr int64_t kForGood = int64_t{1} << 40;
    const Gap next = process.recording.load(std::memory_order_relaxed)
                         ? DrawGap(process.options.heap_interval, &thread.random)
                         : Gap{kForGood, false};
    BeginGap(thread, next);
    thread.interval_index = 0;  // which is the option's
    return false;
  }
  NoteOtherAllocation(thread);
  // In a child of fork: all before this block may be the parent's.
  if (UNLIKELY(thread.epoch != before))
    thread.heap_gap = thread.heap_countdown + static_cast<int64_t>(bytes != 0 ? bytes : 1);
  if (bytes == 0) thread.heap_gap -= 1;  // it was charged 1, which nobody has allocated
  const auto allocated = static_cast<uint64_t>(thread.heap_gap - thread.heap_countdown);
  bool due = thread.heap_gap_is_event;
  int64_t over = -thread.heap_countdown;  // bytes of this block behind the end of the gap
  uint32_t index;
  const uint64_t interval = CurrentInterval(&index);
  // The interval was changed meanwhile: a sample that is due was drawn from the old one, and weighs what that says.
  const uint32_t sampled_index = due ? thread.interval_index : index;
  if (UNLIKELY(index != thread.interval_index)) UseInterval(interval);
  // Drawn whole and only then cut (see kLongestGap), as a block of many terabytes would be a hundred million pieces.
  Gap gap = DrawGap(interval, &thread.random, kUncutGap);
  // A gap that was cut short, or a new thread: the process goes on from where the gap ended, inside this block.
  while (!due && gap.length <= over) {
    due = gap.is_event;
    over -= gap.length;
    gap = DrawGap(interval, &thread.random, kUncutGap);
  }
  // After an event the next gap begins behind this block, whatever lay in the rest of it: p counts "at least one".
  if (due) over = 0;
  gap = CutGap({gap.length - over, gap.is_event}, kLongestGap);
  BeginGap(thread, gap);
  thread.interval_index = static_cast<uint16_t>(index);
  thread.sampled_index = static_cast<uint16_t>(sampled_index);
  // A whole gap went by without a sample, and there is no table yet: made now, so that `holdfast ls` and `set` find the
  // program, also one that began switched off. Half of it: a gap begins behind the block that ended the one before. A
  // thread's first look comes at its first block.
  if (UNLIKELY(table() == nullptr) && !due && allocated >= static_cast<uint64_t>(kLongestGap / 2))
    GetTableMuted(thread);
  const bool lost = due && LittleStackLeft(kStackForRecord);
  if (UNLIKELY(lost)) LoseSample(thread);
  // This block's own bytes are counted by RecordAlloc, once it is there.
  CountBytes(thread, due && !lost ? allocated - bytes : allocated);
  return due && !lost;
}

void DrawHeapGapAnew() {
  ThreadState& thread = thread_state;
  // Not yet introduced: its first block is where it begins. In a sample of its own: the gap behind that is drawn there.
  if (thread.epoch == 0 || (thread.muted && !thread.in_operator)) return;
  int64_t& countdown = thread.in_operator ? thread.held_countdown : thread.heap_countdown;
  int64_t& gap = thread.in_operator ? thread.held_gap : thread.heap_gap;
  SharedTable* recorded = table();
  const uint64_t interval =
      recorded != nullptr ? IntervalAt(recorded, thread.interval_index) : process.options.heap_interval;
  // What was allocated since the last look stays to be counted, and the next look comes no later than it would have.
  const int64_t allocated = gap - countdown;
  const Gap drawn = DrawGap(interval, &thread.random, allocated < kLongestGap ? kLongestGap - allocated : 1);
  countdown = drawn.length;
  gap = drawn.length + allocated;
  thread.heap_gap_is_event = drawn.is_event;
}

void RecordAlloc(const CallerRegisters& caller, void* block, size_t bytes) {
  ThreadState& thread = thread_state;
  if (block == nullptr || !EnterSlow(thread)) return;
  Mute(thread);
  SharedTable* recorded = GetTable();
  if (recorded == nullptr) {
    CountBeforeTable(&BeforeTable::lost_samples, 1);
    CountBeforeTable(&BeforeTable::alloc_bytes, bytes);
    Unmute(thread);
    return;
  }
  const OwnTime own_time(recorded, thread);
  const uint64_t interval = IntervalAt(recorded, thread.sampled_index);
  Stack* stack = interval <= kLargestReplayed && process.options.replay ? RememberedStack(recorded, thread, caller)
                                                                        : SampleStack(recorded, thread, caller);
  Row* row = FindRow(recorded, stack, ProfileKind::kHeap, WaitKind::kNone, static_cast<uint16_t>(SizeClass(bytes)));
  // A sample that still stands at this address was freed where we did not see it. First, so that both never count together.
  if (PassesFilter(block)) RecordFree(block);
  AddAlloc(recorded, thread, row, bytes, interval);
  NoteThread(recorded, thread, row, own_time.start_ns());
  const int level = InsertLive(recorded, reinterpret_cast<uintptr_t>(block),
                               BornNow(thread, bytes, recorded->OffsetOf(row), thread.sampled_index));
  if (level >= 0) {
    AddToFilter(block, level);
  } else {
    recorded->Count(Loss::kLiveTableFull);
    // Its free would never be seen: better a block too few in use than a leak that is none.
    AddFree(recorded, thread, row, bytes, interval);
  }
  if (UNLIKELY(interval == 1)) BeginExact(recorded, thread, uint32_t{thread.sampled_index} + 1);
  own_time.Add();
  // Where nearly everything is sampled, at every 64th sample.
  if (own_time.measured() || process.options.heap_interval >= kSmallestTagged) TendExporter(recorded);
  LookAtFreeCallsAgain(false);
  Unmute(thread);
}

TakenLive TakeSample(const void* block) {
  // free(NULL) frees nothing, although the filter may count a sample in the 1,024 bytes from a multiple of 4 GiB on.
  if (block == nullptr) return {};
  // Also when this thread is muted or recording is switched off: a lost free would be a false leak.
  if (!OwnState()) return {};
  SharedTable* recorded = table();
  if (recorded == nullptr) return {};
  if (const Shadowed taken = TakeExact(recorded, block); taken.row != 0) return {{}, nullptr, taken};
  if (!IsCounted(block)) return {};
  return TakeLive(recorded, reinterpret_cast<uintptr_t>(block), LevelInFilter(block));
}

void RecordFree(const TakenLive& taken, const void* block, bool reallocated) {
  SharedTable* recorded = table();
  if (recorded == nullptr) return;
  if (taken.exact.row != 0) {
    return AddFreeExact(recorded, recorded->At<Row>(taken.exact.row), taken.exact.bytes, block, reallocated);
  }
  const LiveSample sample = taken.sample;
  RemoveFromFilter(block);
  DropLive(taken);
  Row* row = recorded->At<Row>(sample.row);
  AddAge(recorded, row, sample, reallocated);
  if (row->owner != 0) return AddFreeExact(recorded, row, sample.size, block, reallocated);
  AddFree(recorded, thread_state, row, sample.size, IntervalAt(recorded, sample.interval_index));
}

void PutBackSample(const TakenLive& taken, const void* block) {
  if (taken.exact.row != 0) return PutBackExact(table(), taken.exact, block);
  if (taken.key != nullptr) PutBackLive(taken, reinterpret_cast<uintptr_t>(block));
}

}  // namespace holdfast
