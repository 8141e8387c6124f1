#include "sampler/capture/little_stack.h"
#include "sampler/capture/module_table.h"
#include "sampler/capture/remembered_stack.h"
#include "sampler/contract/poisson_sampler.h"
#include "sampler/contract/weight.h"
#include "sampler/hot_path/own_floats.h"
#include "sampler/hot_path/timed_samples.h"
#include "sampler/process/enter.h"
#include "sampler/process/noted_threads.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/process/small_process.h"
#include "sampler/record/ages.h"
#include "sampler/record/before_next_change.h"
#include "sampler/record/exact.h"
#include "sampler/record/heap.h"
#include "sampler/record/heap_sums.h"
#include "sampler/record/otel_probes.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

constinit std::atomic<void (*)()> before_next_change{nullptr};

namespace {

// The interval in force: the table's newest, which can be changed from outside; before there is a table, the option.
uint64_t CurrentInterval(uint32_t* index) {
  SharedTable* table = CurrentTable();
  *index = 0;
  if (table == nullptr) return process.options.heap_interval;
  TableHeader& head = *table->header();
  *index = NewestIndex(head.heap_interval_count.load(std::memory_order_acquire));
  return head.heap_intervals[*index].interval;
}

uint64_t IntervalAt(SharedTable* table, uint32_t index) { return table->header()->heap_intervals[index].interval; }

void CountBytes(const ThreadState& thread, uint64_t bytes) {
  if (bytes == 0) return;
  if (SharedTable* table = CurrentTable()) {
    ShardOf(table, thread).alloc_bytes.fetch_add(bytes, std::memory_order_relaxed);
  } else {
    CountBeforeTable(&BeforeTable::alloc_bytes, bytes);
  }
}

// Too little stack is left to record a sample.
void LoseSample(const ThreadState& thread) {
  if (SharedTable* table = CurrentTable()) {
    table->Count(Loss::kStackMissing);
    ShardOf(table, thread).alloc_calls.fetch_add(1, std::memory_order_relaxed);
  } else {
    CountBeforeTable(&BeforeTable::lost_samples, 1);
  }
}

// This thread has found a changed interval. Below some size samples cannot all be placed at tagged addresses.
HOLDFAST_COLD void UseInterval(uint64_t interval) {
  if (interval != 0 && interval < kSmallestTagged) GiveUpTag();
}

}  // namespace

bool HeapEventDue(size_t bytes) {
  const OwnFloats floats;
  ThreadState& thread = thread_state;
  const uint32_t before = thread.epoch;
  if (!EnterSlow(thread) || process.detached.load(std::memory_order_relaxed)) {
    // Switched off: the next check is far away. Or detached, or a signal handler inside a sample of this thread: its event is
    // lost, and the next gap is drawn as usual.
    constexpr int64_t kForGood = int64_t{1} << 40;
    const Gap next = process.recording.load(std::memory_order_relaxed)
                         ? DrawGap(process.options.heap_interval, &thread.random)
                         : Gap{kForGood, false};
    BeginGap(thread, next);
    thread.interval_index = 0;  // the option's
    return false;
  }
  NoteOtherAllocation(thread);
  // In a child of fork: everything before this block may be the parent's.
  if (UNLIKELY(thread.epoch != before))
    thread.heap_gap = thread.heap_countdown + static_cast<int64_t>(bytes != 0 ? bytes : 1);
  if (bytes == 0) thread.heap_gap -= 1;  // it was charged 1, which nobody has allocated
  const auto allocated = static_cast<uint64_t>(thread.heap_gap - thread.heap_countdown);
  bool due = thread.heap_gap_is_event;
  int64_t over = -thread.heap_countdown;  // bytes of this block after the end of the gap
  uint32_t index;
  const uint64_t interval = CurrentInterval(&index);
  // The interval has changed: a due sample was drawn from the old one, and has that one's weight.
  const uint32_t sampled_index = due ? thread.interval_index : index;
  if (UNLIKELY(index != thread.interval_index)) UseInterval(interval);
  // Drawn whole and only then cut (see kLongestGap): a block of many terabytes would otherwise be a hundred million
  // pieces.
  Gap gap = DrawGap(interval, &thread.random, kUncutGap);
  // A gap that was cut short, or a new thread: continue from the end of the gap, inside this block.
  while (!due && gap.length <= over) {
    due = gap.is_event;
    over -= gap.length;
    gap = DrawGap(interval, &thread.random, kUncutGap);
  }
  // After an event the next gap begins after this block, because p counts "at least one" event in it.
  if (due) over = 0;
  gap = CutGap({gap.length - over, gap.is_event}, kLongestGap);
  BeginGap(thread, gap);
  thread.interval_index = static_cast<uint16_t>(index);
  thread.sampled_index = static_cast<uint16_t>(sampled_index);
  // A whole gap went by without a sample, and there is no table yet: make it now, so that `holdfast ls` and `set` find
  // the program, even one that began switched off. Half a gap suffices, because a gap begins after the block that ended
  // the previous one. A thread's first check comes at its first block.
  if (UNLIKELY(CurrentTable() == nullptr) && !due && allocated >= static_cast<uint64_t>(kLongestGap / 2))
    GetTableMuted(thread);
  const bool lost = due && LittleStackLeft(kStackForRecord);
  if (UNLIKELY(lost)) LoseSample(thread);
  // RecordAlloc counts this block's own bytes once it exists.
  CountBytes(thread, due && !lost ? allocated - bytes : allocated);
  return due && !lost;
}

void DrawHeapGapAnew() {
  ThreadState& thread = thread_state;
  // Not yet introduced: the thread begins at its first block. Inside a sample of its own: the gap after that is drawn
  // there.
  if (thread.epoch == 0 || (thread.muted && !thread.in_operator)) return;
  int64_t& countdown = thread.in_operator ? thread.held_countdown : thread.heap_countdown;
  int64_t& gap = thread.in_operator ? thread.held_gap : thread.heap_gap;
  SharedTable* table = CurrentTable();
  const uint64_t interval = table != nullptr ? IntervalAt(table, thread.interval_index) : process.options.heap_interval;
  const OwnFloats floats;
  // Bytes allocated since the last check remain to be counted, and the next check comes no later than before.
  const int64_t allocated = gap - countdown;
  const Gap drawn = DrawGap(interval, &thread.random, allocated < kLongestGap ? kLongestGap - allocated : 1);
  countdown = drawn.length;
  gap = drawn.length + allocated;
  thread.heap_gap_is_event = drawn.is_event;
}

void RecordAlloc(const CallerRegisters& caller, void* block, size_t bytes) {
  ThreadState& thread = thread_state;
  if (block == nullptr || !EnterSlow(thread)) return;
  CallBeforeNextChange();
  Mute(thread);
  SharedTable* table = GetTable();
  if (table == nullptr) {
    CountBeforeTable(&BeforeTable::lost_samples, 1);
    CountBeforeTable(&BeforeTable::alloc_bytes, bytes);
    Unmute(thread);
    return;
  }
  const OwnTime own_time(table, thread);
  const uint64_t interval = IntervalAt(table, thread.sampled_index);
  Stack* stack = interval <= kLargestReplayed && process.options.replay ? RememberedStack(table, thread, caller)
                                                                        : SampleStack(table, thread, caller);
  Row* row = FindRow(table, stack, ProfileKind::kHeap, WaitKind::kNone, static_cast<uint16_t>(SizeClass(bytes)));
  // A sample at this address was freed without our seeing it. Remove it first, so that both never count together.
  if (PassesFilter(block)) RecordUnseenFree(block);
  const uint64_t weight = AddAlloc(table, thread, row, bytes, interval);
  ProbeAlloc(block, bytes, WholeBytes(weight));
  NoteThread(table, thread, row, own_time.start_ns());
  const int level = InsertLive(table, reinterpret_cast<uintptr_t>(block),
                               BornNow(thread, bytes, table->OffsetOf(row), thread.sampled_index));
  if (level >= 0) {
    AddToFilter(block, level);
  } else {
    table->Count(Loss::kLiveTableFull);
    // Its free would never be seen. Undercounting one block beats reporting a false leak.
    ProbeFree(block);
    AddFree(table, thread, row, bytes, interval);
  }
  if (UNLIKELY(interval == 1)) BeginExact(table, thread, uint32_t{thread.sampled_index} + 1);
  own_time.Add();
  // If nearly everything is sampled, at every 64th sample.
  if (own_time.measured() || process.options.heap_interval >= kSmallestTagged) AfterSample(table);
  LookAtFreeCallsAgain(false);
  Unmute(thread);
}

// Before the real free, while the address is still the caller's. The sample is in its place meanwhile.
static HOLDFAST_COLD void CallBeforeFree(SharedTable* table, uintptr_t address) {
  const TakenLive taken = TakeLive(table, address, -1);
  if (!taken.sampled()) return;
  PutBackLive(taken, address);
  CallBeforeNextChange();
}

TakenLive TakeSample(const void* block) {
  // free(NULL) frees nothing, although the filter may count a sample in the 1,024 bytes that begin at a multiple of 4
  // GiB.
  if (block == nullptr) return {};
  // Also when this thread is muted or recording is switched off: a lost free would be a false leak.
  if (!OwnState()) return {};
  SharedTable* table = CurrentTable();
  if (table == nullptr) return {};
  if (const Shadowed taken = TakeExact(table, block); taken.row != 0) return {{}, nullptr, taken};
  if (!IsCounted(block)) return {};
  const auto address = reinterpret_cast<uintptr_t>(block);
  if (UNLIKELY(before_next_change.load(std::memory_order_relaxed) != nullptr)) CallBeforeFree(table, address);
  return TakeLive(table, address, LevelInFilter(block));
}

void RecordFree(const TakenLive& taken, const void* block, bool reallocated) {
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;
  ProbeFree(block);
  if (taken.exact.row != 0) {
    return AddFreeExact(table, table->At<Row>(taken.exact.row), taken.exact.bytes, block, reallocated);
  }
  const LiveSample sample = taken.sample;
  RemoveFromFilter(block);
  DropLive(taken);
  Row* row = table->At<Row>(sample.row);
  AddAge(table, row, sample, reallocated);
  if (row->owner != 0) return AddFreeExact(table, row, sample.size, block, reallocated);
  AddFree(table, thread_state, row, sample.size, IntervalAt(table, sample.interval_index));
}

void RecordUnseenFree(const void* block) {
  const TakenLive taken = TakeSample(block);
  if (!taken.sampled()) return;
  NoteLiveBlockReturned();
  RecordFree(taken, block);
}

void ForgetSamples() {
  SharedTable* table = CurrentTable();
  if (table == nullptr) return;
  // First: a block in the shadow map may have its age in the live table.
  ForgetExact(table);
  VisitLive(table, [](SharedTable* of, uintptr_t address) {
    const TakenLive taken = TakeLive(of, address, -1);
    if (taken.key == nullptr) return;
    const LiveSample sample = taken.sample;
    const auto* block = reinterpret_cast<const void*>(address);
    if (sample.beside_shadow == 0) RemoveFromFilter(block);
    DropLive(taken);
    if (sample.beside_shadow != 0) return;  // counted by ForgetExact
    Row* row = of->At<Row>(sample.row);
    if (row->owner != 0) return AddFreeExact(of, row, sample.size, nullptr, false);
    AddFree(of, thread_state, row, sample.size, IntervalAt(of, sample.interval_index));
  });
}

void PutBackSample(const TakenLive& taken, const void* block) {
  if (taken.exact.row != 0) return PutBackExact(CurrentTable(), taken.exact, block);
  if (taken.key != nullptr) PutBackLive(taken, reinterpret_cast<uintptr_t>(block));
}

}  // namespace holdfast
