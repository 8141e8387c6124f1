#include <linux/futex.h>
#include <time.h>

#include "sampler/contract/clock.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/syscalls.h"
#include "sampler/lifetime/lifetime.h"
#include "sampler/locks/holds.h"
#include "sampler/process/enter.h"
#include "sampler/process/exporter_watch.h"
#include "sampler/process/process.h"

namespace holdfast {

int SnapshotSignal() { return process.recording.load(std::memory_order_relaxed) ? process.options.signal : 0; }

void RequestSnapshot() {
  if (!OwnState()) return;
  SharedTable* recorded = table();
  if (recorded == nullptr) return;
  recorded->header()->snapshot_request.fetch_add(1, std::memory_order_release);
  NotifyExporter(process.location);
}

void AwaitLastProfile() {
  if (!OwnState()) return;
  SharedTable* recorded = table();
  if (recorded == nullptr) return;
  const bool silent = no_system_calls.load(std::memory_order_relaxed);
  if (!silent && InBorrowedMemory()) return;
  TableHeader& head = *recorded->header();
  if (head.exported.load(std::memory_order_acquire) != 0) return;  // at_quick_exit and then _exit
  // Also for who reads the table afterwards.
  SettleLocks();
  // Whoever stopped the program's whole group of processes may have stopped the exporter, too.
  if (silent) return;
  const bool is_served = StartExporter();
  // Also where nobody answers: the file's time then says when this was.
  head.exit_request.store(1, std::memory_order_release);
  NotifyExporter(process.location);
  if (!is_served) return;
  const int64_t start_ns = KernelNs();
  const auto waited_ns = [start_ns] { return KernelNs() - start_ns; };
  while (head.exported.load(std::memory_order_acquire) == 0 && waited_ns() < 2'000'000'000) {
    const timespec pause = {0, 100'000'000};
    RawSyscall(SYS_futex, &head.exported, FUTEX_WAIT, 0, &pause, 0, 0);
    // Nobody there who could answer: it could not start, or died. The table stays for `holdfast collect`.
    if (waited_ns() > 500'000'000 && !ExporterServes(process.location.folder, process.options.out, process.out_id))
      return;
  }
}

}  // namespace holdfast
