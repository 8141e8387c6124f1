// A process at one moment: what its table says, and what was found out from outside.
//
//     table ── TakeSnapshot ──► TableSnapshot   const: stacks, rows, locks, waits, modules, counters
//     /proc ── Observe ───────► ProcessState    the same table, and holders, names, mappings, resident pages, the account
//
// Everything that writes a profile takes a ProcessState. A part that nobody asked for is empty, or what the table says.
#ifndef HOLDFAST_REPORT_OBSERVE_PROCESS_STATE_H_
#define HOLDFAST_REPORT_OBSERVE_PROCESS_STATE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/observe/memory/account.h"
#include "report/observe/memory/libc_mappings.h"
#include "report/observe/memory/resident_rows.h"
#include "report/observe/outside/look_at_waits.h"
#include "report/observe/outside/thread_looks.h"
#include "report/observe/peak/heap_moment.h"
#include "report/observe/peak/peak_state.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

// Facts about the live blocks of one row that are not in the table, on request: their holder and their class.
struct LabelledBlocks {
  Offset row;
  std::string held, of_class;     // "": unknown, or no class
  double objects = 0, bytes = 0;  // estimated
};

struct ProcessState {
  explicit ProcessState(TableSnapshot snapshot)
      : table(std::make_shared<const TableSnapshot>(std::move(snapshot))),
        waits(*table),
        thread_names(table->noted_threads.size()),
        thread_is_gone(table->live_threads.size()),
        exit_moment(table->exit_moment),
        highest_bytes(table->highest_bytes),
        highest_wall_ns(table->highest_wall_ns) {}

  // `index`: of the table, or of a stack that was walked from outside.
  const StackInfo& stack(uint32_t index) const {
    return index < waits.table_stacks ? table->stacks[index] : waits.stacks[index - waits.table_stacks];
  }
  size_t stack_count() const { return waits.table_stacks + waits.stacks.size(); }

  std::shared_ptr<const TableSnapshot> table;
  WaitGraph waits;
  std::vector<std::string> thread_names;  // of table->noted_threads; "": unknown, or the program's name
  std::vector<bool> thread_is_gone;       // of table->live_threads: ended without reporting it
  uint64_t resident_bytes = 0;            // of the process, from the kernel; 0: unknown
  std::vector<LibcMapping> libc_mappings;
  Residency residency;
  absl::StatusOr<MemoryAccount> account = absl::NotFoundError("nobody asked for it");
  std::optional<FreeMemory> free_memory;            // of glibc's heaps
  std::vector<LabelledBlocks> labelled_blocks;      // empty: not requested
  std::shared_ptr<const ThreadTimes> thread_times;  // null: nobody looks
  std::shared_ptr<const ThreadTimes>
      thread_lives;  // names, lifetimes and CPU times, without looks; null: not requested

  // Known to an exporter, which watches the process between snapshots. Others have what the table says.
  std::vector<std::string> reasons;  // why it was taken, apart from the regular interval: "inuse>2GiB at 2.01GiB"
  ExitMoment exit_moment;
  double highest_bytes;  // the peak use, and when it was reached
  int64_t highest_wall_ns;
  const PeakState* peak = nullptr;          // the stacks at the peak; null: not watched
  std::span<const HeapMoment> course = {};  // oldest first; empty unless every allocation is recorded
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_PROCESS_STATE_H_
