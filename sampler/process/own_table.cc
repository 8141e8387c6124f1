#include "sampler/process/own_table.h"

#include "sampler/capture/little_stack.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/sampled_filter.h"
#include "sampler/process/cpu_timers.h"
#include "sampler/process/exporter_watch.h"
#include "sampler/process/small_process.h"
#include "sampler/table/stack_table.h"

namespace holdfast {

namespace {

enum TableState : uint32_t { kNone, kBeingMade, kMade, kImpossible };
constinit std::atomic<uint32_t> table_state{kNone};
constexpr int kSleeps = 1000;  // while another thread makes it: 100 ms or so
// The table's mapping, and how much of it is ours; a forked child maps its own over it.
constinit SharedTable* table_address = nullptr;
constinit uint64_t table_bytes = 0;
constinit FolderId given_out_id{};

// With HOLDFAST_VERBOSE: one line when recording begins.
void PrintStart() {
  TextBuffer<2048> line;
  line.Add("holdfast: process ").AddNumber(static_cast<uint64_t>(process.pid)).Add(": a heap sample every ");
  line.AddNumber(process.options.heap_interval)
      .Add(" bytes, a lock sample every ")
      .AddNumber(process.options.lock_interval_ns);
  line.Add(" ns of waiting, profiles go to ").Add(process.options.out).Add("\n");
  RawSyscall(SYS_write, 2, line.text(), line.length());
}

// With HOLDFAST_VERBOSE: one line if nothing will be recorded.
void PrintNoTable(const NoTable& why) {
  TextBuffer<1024> line;
  line.Add("holdfast: process ").AddNumber(static_cast<uint64_t>(process.pid)).Add(": no table could be created");
  if (why.reason != nullptr) line.Add(": ").Add(why.folder).Add(" ").Add(why.reason);
  line.Add("; nothing is recorded. Set HOLDFAST_TABLES to a folder in memory that has room\n");
  RawSyscall(SYS_write, 2, line.text(), line.length());
}

// Moves the counters from before the table into it.
void MoveBeforeTable(SharedTable* made) {
  CounterShard& counters = made->header()->counters[0];
  BeforeTable& before = process.before_table;
  counters.alloc_bytes.fetch_add(before.alloc_bytes.exchange(0), std::memory_order_relaxed);
  made->header()->losses[static_cast<int>(Loss::kTableUnavailable)].fetch_add(before.lost_samples.exchange(0),
                                                                              std::memory_order_relaxed);
}

// Makes the table and starts its exporter; signals are blocked.
SharedTable* MakeTableNow() {
  if (sampled_filter.counters.load(std::memory_order_relaxed) == nullptr) {
    auto* counters = static_cast<uint8_t*>(MapLazily(kFilterBytes));
    if (counters != nullptr) MarkAlwaysAsk(counters);
    sampled_filter.counters.store(counters, std::memory_order_release);
    sampled_filter.sure.store(counters, std::memory_order_release);
  }
  SharedTable* made = nullptr;
  NoTable why;
  why.reason = nullptr;
  if (sampled_filter.counters.load(std::memory_order_relaxed) != nullptr) {
    process.out_id =
        given_out_id.known() ? given_out_id : OutFolderId(process.options.out, process.exporter[0] != '\0');
    made = MakeTable(process.options, table_address, table_bytes, process.forked, BeginsHidden(), process.out_id,
                     &process.location, &why);
  }
  if (made == nullptr || !MakeSpecialStacks(made)) {
    // No place to keep anything: step aside for good, the program runs on without us.
    process.recording.store(false, std::memory_order_relaxed);
    table_state.store(kImpossible, std::memory_order_release);
    if (process.options.verbose > 0) PrintNoTable(why);
    return nullptr;
  }
  table_address = made;
  table_bytes = made->header()->cap_bytes;
  NoteHidden(process.location.hidden);
  // Published before the exporter is started: that takes a millisecond or two, and on a busy machine many more, in
  // which other threads record already. This thread records its own sample only afterwards.
  current_table.store(made);
  NoteCpu(made);
  MoveBeforeTable(made);
  BeginBeat();
  if (!process.location.hidden) {
    // Before the look at the lock: an exporter that starts after that look finds the table by itself.
    AnnounceTable(process.location.folder, process.options.out, process.out_id);
    StartExporter();
  }
  if (process.options.verbose > 0) {
    PrintStart();
    PrintUnwritable();
  }
  table_state.store(kMade, std::memory_order_release);
  return made;
}

SharedTable* MakeTableSlow() {
  if (table_state.load(std::memory_order_acquire) == kNone) {
    if (no_system_calls.load(std::memory_order_relaxed) || InBorrowedMemory()) return nullptr;
    // Blocks the program's handlers throughout: one might jump out, and there would never be a table.
    const SignalsBlocked blocked;
    uint32_t none = kNone;
    if (table_state.compare_exchange_strong(none, kBeingMade, std::memory_order_acquire)) return MakeTableNow();
  }
  // Another thread is making it: a fraction of a millisecond. A bounded wait, so that no sample of a start-up is lost.
  uint32_t state = kNone;
  AwaitBounded(kSleeps, [&state] {
    state = table_state.load(std::memory_order_acquire);
    return state != kBeingMade || CurrentTable() != nullptr;
  });
  SharedTable* made = CurrentTable();
  // The thread that makes the table will not finish, so do not wait again. (If it does finish, the table is used.)
  if (made == nullptr && state == kBeingMade) table_state.compare_exchange_strong(state, kImpossible);
  return made;
}

}  // namespace

void CountBeforeTable(std::atomic<uint64_t> BeforeTable::*counter, uint64_t amount) {
  // All of these in one total order: either the thread that publishes the table finds this amount, or this thread finds
  // the table.
  (process.before_table.*counter).fetch_add(amount);
  if (SharedTable* made = current_table.load()) MoveBeforeTable(made);
}

SharedTable* GetTableMuted(ThreadState& thread) {
  Mute(thread);
  SharedTable* found = GetTable();
  Unmute(thread);
  return found;
}

SharedTable* GetTable() {
  SharedTable* found = CurrentTable();
  if (LIKELY(found != nullptr)) return found;
  return LittleStackLeft(kStackForCapture) ? nullptr : MakeTableSlow();
}

SharedTable* FinishedTable() {
  SharedTable* made = GetTable();
  AwaitBounded(kSleeps, [] { return table_state.load(std::memory_order_acquire) != kBeingMade; });
  ShowTable();
  return made;
}

void UseOutFolderId(FolderId id) { given_out_id = id; }

void AllowNewTable() { table_state.store(kNone, std::memory_order_relaxed); }

}  // namespace holdfast
