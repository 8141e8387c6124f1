#include "sampler/process/small_process.h"

#include <fcntl.h>

#include "sampler/capture/little_stack.h"
#include "sampler/contract/clock.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/process/process.h"

namespace holdfast {

constinit std::atomic<TableName> table_name{TableName::kShown};

namespace {

constinit std::atomic<uint64_t> mapped_bytes{0};
constexpr int kSleeps = 1000;  // while another thread shows it: 100 ms or so

TextBuffer<sizeof TableLocation::path> HiddenPath() {
  TextBuffer<sizeof TableLocation::path> path;
  path.Add(process.location.path).Add(kSmallSuffix);
  return path;
}

bool IsSmall(SharedTable* table, int64_t now_ns) {
  const TableHeader& head = *table->header();
  if (now_ns - head.start_monotonic_ns >= kSmallForNs || head.snapshot_request.load(std::memory_order_relaxed) != 0)
    return false;
  const ThreadState& thread = thread_state;
  uint64_t bytes =
      mapped_bytes.load(std::memory_order_relaxed) + static_cast<uint64_t>(thread.heap_gap - thread.heap_countdown);
  // What each other thread has allocated since its last sample is not known: half an interval if it ended, on average.
  const uint32_t threads = process.threads.load(std::memory_order_relaxed);
  if (threads > 1) bytes += (threads - 1) * process.options.heap_interval;
  for (const CounterShard& shard : head.counters) bytes += shard.alloc_bytes.load(std::memory_order_relaxed);
  return bytes < process.options.skip_small_bytes;
}

}  // namespace

// PID 1 starts its exporter before its children need one, and the program that the user named always has a profile. If every
// allocation is recorded, nobody has its bytes in one place.
bool BeginsHidden() {
  const Options& options = process.options;
  return options.skip_small_bytes != 0 && options.heap_interval != 1 && process.pid != 1 &&
         options.root_pid != process.pid;
}

void NoteHidden(bool hidden) {
  mapped_bytes.store(0, std::memory_order_relaxed);
  table_name.store(hidden ? TableName::kHidden : TableName::kShown, std::memory_order_release);
}

void CountMappedBytes(uint64_t bytes) { mapped_bytes.fetch_add(bytes, std::memory_order_relaxed); }

void ShowTable() {
  TableName name = table_name.load(std::memory_order_acquire);
  if (name == TableName::kHidden) {
    // A later sample on a larger stack shows it.
    if (no_system_calls.load(std::memory_order_relaxed) || LittleStackLeft(kStackForCapture) || InBorrowedMemory())
      return;
    const SignalsBlocked blocked;
    if (table_name.compare_exchange_strong(name, TableName::kBeingShown, std::memory_order_acq_rel)) {
      // An exporter may have done it.
      RawSyscall(SYS_renameat, AT_FDCWD, HiddenPath().text(), AT_FDCWD, process.location.path);
      AnnounceTable(process.location.folder, process.options.out, process.out_id);
      StartExporter();
      table_name.store(TableName::kShown, std::memory_order_release);
    }
  }
  if (name == TableName::kBeingShown)  // by another thread
    AwaitBounded(kSleeps, [] { return table_name.load(std::memory_order_acquire) != TableName::kBeingShown; });
}

void ShowTableIfDue(SharedTable* table) {
  if (!no_clock.load(std::memory_order_relaxed) && !IsSmall(table, MonotonicNs())) ShowTable();
}

bool DropTableIfSmall(SharedTable* table) {
  if (TableIsHidden() && IsSmall(table, KernelNs()) &&
      !SyscallFailed(RawSyscall(SYS_unlinkat, AT_FDCWD, HiddenPath().text(), 0)))
    table_name.store(TableName::kDropped, std::memory_order_release);
  // Several functions may end one process: quick_exit, and _exit in one of its handlers.
  if (table_name.load(std::memory_order_acquire) == TableName::kDropped) return true;
  ShowTable();
  return false;
}

}  // namespace holdfast
