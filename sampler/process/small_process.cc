#include "sampler/process/small_process.h"

#include <fcntl.h>

#include "sampler/contract/clock.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/contract/text.h"
#include "sampler/hot_path/thread_state.h"
#include "sampler/process/process.h"

namespace holdfast {

constinit std::atomic<bool> table_is_hidden{false};

namespace {

constinit std::atomic<uint64_t> mapped_bytes{0};
constinit std::atomic<bool> is_dropped{false};

TextBuffer<sizeof TableLocation::path> HiddenPath() {
  TextBuffer<sizeof TableLocation::path> path;
  path.Add(process.location.path).Add(kSmallSuffix);
  return path;
}

bool IsSmall(SharedTable* table) {
  if (MonotonicNs() - table->header()->start_monotonic_ns >= kSmallForNs) return false;
  // What other threads have allocated since their last samples is missing.
  uint64_t bytes = mapped_bytes.load(std::memory_order_relaxed) +
                   static_cast<uint64_t>(thread_state.heap_gap - thread_state.heap_countdown);
  for (const CounterShard& shard : table->header()->counters)
    bytes += shard.alloc_bytes.load(std::memory_order_relaxed);
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
  is_dropped.store(false, std::memory_order_relaxed);
  table_is_hidden.store(hidden, std::memory_order_release);
}

void CountMappedBytes(uint64_t bytes) { mapped_bytes.fetch_add(bytes, std::memory_order_relaxed); }

void ShowTable() {
  if (!TableIsHidden() || no_system_calls.load(std::memory_order_relaxed)) return;
  const SignalsBlocked blocked;
  if (!table_is_hidden.exchange(false, std::memory_order_acq_rel)) return;
  // An exporter may have done it.
  RawSyscall(SYS_renameat, AT_FDCWD, HiddenPath().text(), AT_FDCWD, process.location.path);
  AnnounceTable(process.location.folder, process.options.out, process.out_id);
  StartExporter();
}

void ShowTableIfDue(SharedTable* table) {
  if (!no_clock.load(std::memory_order_relaxed) && !IsSmall(table)) ShowTable();
}

bool DropTableIfSmall(SharedTable* table) {
  if (TableIsHidden() && IsSmall(table) && !SyscallFailed(RawSyscall(SYS_unlinkat, AT_FDCWD, HiddenPath().text(), 0))) {
    is_dropped.store(true, std::memory_order_relaxed);
    table_is_hidden.store(false, std::memory_order_release);
  }
  // Several functions may end one process: quick_exit, and _exit in one of its handlers.
  if (is_dropped.load(std::memory_order_relaxed)) return true;
  ShowTable();
  return false;
}

}  // namespace holdfast
