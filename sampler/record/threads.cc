#include "sampler/record/threads.h"

#include <cerrno>

#include "sampler/capture/raw_memory.h"
#include "sampler/capture/sample_stack.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/syscalls.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/entered.h"
#include "sampler/process/own_table.h"
#include "sampler/process/small_process.h"
#include "sampler/table/in_use.h"
#include "sampler/table/live_threads.h"

namespace holdfast {

namespace {

// By slot number: all zeros, touched only as used. Private memory, because others can write a table.
constinit ThreadStart starts[kMaxLiveThreads] = {};

constexpr uint64_t kOne = uint64_t{1} << kCountFractionBits;

void CountEnded(Row* row) { AddTo(CurrentTable(), &row->sums[kThreadsEnded], kOne); }

bool IsGone(uint32_t id) {
  return !no_system_calls.load(std::memory_order_relaxed) &&
         RawSyscall(SYS_tgkill, process.pid, static_cast<int>(id), 0) == -ESRCH;
}

Row* RowOf(SharedTable* table, uint64_t who) { return table->At<Row>(static_cast<Offset>(who >> kNotedRowShift)); }

// Null: the tables of this process have changed since.
SharedTable* TableOf(uint32_t epoch) {
  if (!OwnState() || process.epoch.load(std::memory_order_acquire) != epoch) return nullptr;
  return CurrentTable();
}

}  // namespace

ThreadBirth BeginBirth(const CallerRegisters& caller, const ThreadStart& start, uint64_t stack_bytes) {
  ThreadState& thread = thread_state;
  ThreadBirth birth{};
  if (SharedTable* table = OwnState() ? CurrentTable() : nullptr) ExpectAnotherThread(table, thread);
  const bool stacks_wanted = (process.options.profiles & KindBit(ProfileKind::kMap)) != 0;
  // With CPU timers, each thread has one from its start on, and reports at its end what it has used since the last signal.
  if (!stacks_wanted && !HasCpuTimers() && (process.options.profiles & KindBit(ProfileKind::kThreads)) == 0)
    return birth;
  if (LittleStackLeft(kStackForRecord)) {
    if (SharedTable* table = OwnState() ? CurrentTable() : nullptr) table->Count(Loss::kStackMissing);
    return birth;
  }
  const Entered entered(thread);
  SharedTable* table = entered.way() == Way::kOpen ? GetTable() : nullptr;
  if (table == nullptr) return birth;
  const OwnTime own_time(table, thread);
  Row* row = FindMarkedRow(table, SampleStack(table, thread, caller), ProfileKind::kThreads, 0,
                           stacks_wanted ? StackNumber(stack_bytes) : uint16_t{0});
  const uint32_t number = TakeLiveThread(table, row, IsGone, CountEnded);
  birth.row = row;
  birth.epoch = process.epoch.load(std::memory_order_relaxed);
  if (number != kNoLiveThread) {
    starts[number] = start;
    birth.start = &starts[number];
  }
  own_time.Add();
  if (own_time.measured()) AfterSample(table);
  return birth;
}

void EndBirth(const ThreadBirth& birth, bool created) {
  SharedTable* table = birth.row != nullptr ? TableOf(birth.epoch) : nullptr;
  if (table == nullptr) return;
  auto* row = static_cast<Row*>(birth.row);
  if (created) {
    AddTo(table, &row->sums[kThreadsCreated], kOne);
    if (birth.start == nullptr) CountEnded(row);  // nobody will see its end
  } else if (birth.start != nullptr) {
    EndLiveThread(LiveThreadAt(table, static_cast<uint32_t>(birth.start - starts)),
                  uint64_t{table->OffsetOf(row)} << kNotedRowShift);
  }
}

FollowedThread BeganThread(ThreadStart* start) {
  const auto number = static_cast<uint32_t>(start - starts);
  FollowedThread thread{*start, number, process.epoch.load(std::memory_order_relaxed), 0};
  start->argument = nullptr;  // the copy would look as if something still led to the argument
  SharedTable* table = TableOf(thread.epoch);
  if (table == nullptr) return thread;
  SeeCpu(thread_state, WhileOthersChange::kWait);
  LiveThread* slot = LiveThreadAt(table, number);
  BeginLiveThread(slot, static_cast<uint32_t>(ThreadId()), MonotonicNs());
  thread.who = slot->who.load(std::memory_order_relaxed);
  return thread;
}

__attribute__((noinline)) void EndedThread(const FollowedThread& thread) {
  SharedTable* table = TableOf(thread.epoch);
  if (table == nullptr) return;
  if (UNLIKELY(HasCpuTimers())) EndCpuTimer(HOLDFAST_CALLER(), thread.start.function);
  GiveBackRoom(table, thread_state, Keep::kNothing);
  if (thread.who == 0) return;
  if (EndLiveThread(LiveThreadAt(table, thread.number), thread.who)) CountEnded(RowOf(table, thread.who));
}

// The start files of glibc's programs load main's address as the first argument (rdi) of __libc_start_main, near the entry.
static const void* MainFunction(uintptr_t entry) {
#if defined(__x86_64__)
  constexpr int kSearched = 48, kLength = 7;  // bytes; of each of these instructions
  if (entry == 0 || !PageReadable(entry) || !PageReadable(entry + kSearched + kLength)) return nullptr;
  const auto* code = reinterpret_cast<const uint8_t*>(entry);
  for (int i = 0; i < kSearched; ++i) {
    if (code[i] != 0x48) continue;
    int32_t number = 0;
    __builtin_memcpy(&number, code + i + 3, sizeof number);
    const uintptr_t relative = entry + static_cast<uintptr_t>(i + kLength) + static_cast<uintptr_t>(int64_t{number});
    if (code[i + 1] == 0x8d && code[i + 2] == 0x3d) return reinterpret_cast<const void*>(relative);  // lea
    if (code[i + 1] == 0xc7 && code[i + 2] == 0xc7)                                                  // mov
      return reinterpret_cast<const void*>(static_cast<uintptr_t>(int64_t{number}));
    if (code[i + 1] == 0x8b && code[i + 2] == 0x3d)  // mov, from the global offset table
      return PageReadable(relative) ? *reinterpret_cast<const void* const*>(relative) : nullptr;
  }
#else
  (void)entry;
#endif
  return nullptr;
}

const void* FunctionOfThread(uint32_t id) {
  SharedTable* table = CurrentTable();
  if (table != nullptr && id == static_cast<uint32_t>(process.pid)) return MainFunction(table->header()->entry);
  const uint32_t number = table != nullptr ? FindLiveThread(table, id) : kNoLiveThread;
  return number != kNoLiveThread ? starts[number].function : nullptr;
}

__attribute__((noinline)) void EndedThisThread() {
  SharedTable* table = OwnState() ? CurrentTable() : nullptr;
  const auto id = static_cast<uint32_t>(ThreadId());
  if (table == nullptr) return;
  if (UNLIKELY(HasCpuTimers())) EndCpuTimer(HOLDFAST_CALLER(), nullptr);
  GiveBackRoom(table, thread_state, Keep::kNothing);
  if (id == 0) return;
  const uint32_t number = FindLiveThread(table, id);
  if (number == kNoLiveThread) return;
  LiveThread* slot = LiveThreadAt(table, number);
  const uint64_t who = slot->who.load(std::memory_order_relaxed);
  if (static_cast<uint32_t>(who) == id && EndLiveThread(slot, who)) CountEnded(RowOf(table, who));
}

}  // namespace holdfast
