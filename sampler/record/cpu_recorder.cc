#include "sampler/capture/raw_memory.h"
#include "sampler/capture/sample_stack.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/syscalls.h"
#include "sampler/process/noted_threads.h"
#include "sampler/process/own_table.h"
#include "sampler/process/process.h"
#include "sampler/record/cpu.h"
#include "sampler/record/threads.h"
#include "sampler/table/stack_rows.h"

namespace holdfast {
namespace {

// The stack of a function that has returned, from its caller's.
Stack* StackBelow(SharedTable* table, ThreadState& thread, const CpuTick& tick) {
  StackTrace* const trace = LittleStackLeft(kStackForCapture) ? nullptr : TakeScratch(thread);
  if (trace == nullptr) return MissingStack(table);
  // The module's tag is that of a walk that begins in the function. Its caller is not there: one frame.
  CallerRegisters inside = tick.at;
  inside.pc = tick.function + 1;
  CaptureStack(inside, &thread.stack_bounds, trace);
  const TaggedPc function = trace->depth > 0 ? trace->frames[0] : 0;
  CaptureStack(tick.at, &thread.stack_bounds, trace);
  if (function != 0 && trace->depth + 1 < kMaxDepth) {
    for (int i = trace->depth; i > 0; --i) trace->frames[i] = trace->frames[i - 1];
    trace->frames[0] = function;
    ++trace->depth;
  }
  SeeThreadNameIfWanted(thread);
  Stack* const stack = InternStack(table, *trace, LabelFrame(table, thread.labels));
  ReturnScratch(thread);
  return stack;
}

// A stack at the end of the process: only the function that the thread was started with is known.
Stack* StackAtEnd(SharedTable* table, ThreadState& thread, const CpuTick& tick) {
  const bool is_own = tick.thread == static_cast<uint32_t>(RawSyscall(SYS_gettid));
  const void* const function = FunctionOfThread(tick.thread);
  if (function == nullptr) return is_own ? SampleStack(table, thread, tick.at) : MissingStack(table);
  StackTrace* const trace = LittleStackLeft(kStackForCapture) ? nullptr : TakeScratch(thread);
  if (trace == nullptr) return MissingStack(table);
  // A walk that begins in the function has its module's tag. What else it finds on this stack has no meaning.
  CallerRegisters inside = tick.at;
  inside.pc = reinterpret_cast<uintptr_t>(function) + 1;
  CaptureStack(inside, &thread.stack_bounds, trace);
  // Outside of all modules it is a guess that failed.
  const bool is_known = trace->depth > 0 && trace->frames[0] >> kPcTagShift != kNoModuleTag;
  if (is_known) {
    trace->depth = 1;
    trace->truncated = false;
  } else if (is_own) {
    CaptureStack(tick.at, &thread.stack_bounds, trace);
  }
  Stack* const stack = is_known || is_own ? InternStack(table, *trace, is_own ? LabelFrame(table, thread.labels) : 0)
                                          : MissingStack(table);
  ReturnScratch(thread);
  return stack;
}

// The interrupted thread may be anywhere in a slow path of ours, with its one scratch buffer in use. An operator of the
// program that runs inside a wrapper is the program's own code.
Stack* StackOf(SharedTable* table, ThreadState& thread, const CpuTick& tick) {
  const bool is_ours = thread.muted && !thread.in_operator;
  // Code on another stack may use the stack pointer for something else.
  if (is_ours || (tick.on_another_stack && !PageReadable(tick.at.sp - sizeof(uintptr_t)))) return MissingStack(table);
  const bool muted = thread.muted;
  const uint16_t scratch = thread.scratch;
  Mute(thread);
  thread.scratch = 0;
  Stack* const stack = tick.thread != 0     ? StackAtEnd(table, thread, tick)
                       : tick.function == 0 ? SampleStack(table, thread, tick.at)
                                            : StackBelow(table, thread, tick);
  thread.scratch = scratch;
  thread.muted = muted;
  return stack;
}

}  // namespace

void RecordCpu(const CpuTick& tick) {
  if (!process.recording.load(std::memory_order_relaxed) || tick.interval_ns == 0) return;
  const int64_t start_ns = MonotonicNs();
  ThreadState& thread = thread_state;
  SharedTable* const table = GetTable();
  if (table == nullptr) return CountBeforeTable(&BeforeTable::lost_samples, 1);
  Row* const row = FindMarkedRow(table, StackOf(table, thread, tick), ProfileKind::kCpu, 0, 0);
  const auto interval = static_cast<double>(tick.interval_ns);
  AddTo(table, &row->sums[kCpuSamples], tick.intervals << kCountFractionBits);
  AddTo(table, &row->sums[kCpuTime], tick.intervals * tick.interval_ns << kAmountFractionBits);
  AddDouble(&row->sums[kCpuVariance], static_cast<double>(tick.intervals) * interval * interval);
  if (tick.thread == 0 && !thread.muted && !LittleStackLeft(kStackForRecord)) NoteThread(table, thread, row, 0);
  if (const int64_t took = MonotonicNs() - start_ns; took > 0)
    table->header()->counters[thread.shard].sample_ns.fetch_add(static_cast<uint64_t>(took), std::memory_order_relaxed);
}

}  // namespace holdfast
