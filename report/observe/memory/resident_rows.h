// Computes the resident bytes of live sampled blocks for each row, from the process's page table.
//
//     live samples                     /proc/PID/pagemap                  a row
//     0x7f12a010  300 B  row 7   ──►   page 7f12a: present           ┐
//     0x7f12afc0  100 B  row 7   ──►   64 B present, 36 B swapped    ┴►  400 B in use, 364 B resident
//
// A block gets only the bytes of a page that it covers, so blocks share a page; bytes that no block covers are in no
// row. Each block counts 1/p times, as for memory in use (sampler/contract/weight.h): so these estimates are also
// unbiased, with variance Σ r²(1−p)/p². The zero page, which the kernel gives to all readers, is not resident if the
// kernel can tell (PAGEMAP_SCAN, Linux 6.7).
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_RESIDENT_ROWS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_RESIDENT_ROWS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/base/time_budget.h"
#include "report/observe/memory/live_blocks.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/table/snapshot.h"

namespace holdfast {

// Live blocks of a heap row, or mappings of a map row, and their resident bytes. For blocks these are estimates.
struct ResidentRow {
  Offset row = 0;              // RowInfo::place
  const char* libc = nullptr;  // if set, the frame for mappings that libc made, instead of a row
  bool has_blocks = false;     // mappings that contain live blocks, minus these blocks, so also an estimate
  double objects = 0, bytes = 0, resident = 0, swapped = 0, huge = 0;
  double objects_variance = 0, bytes_variance = 0, resident_variance = 0, swapped_variance = 0, huge_variance = 0;
};

struct Residency {
  std::string left_out;  // why resident memory is unknown; "": known, or not requested
  std::vector<ResidentRow> rows;
  std::string mappings_left_out;  // the mappings missing from `rows`, and why; "": none
  uint64_t stacks_left_out = 0;   // threads with stacks that are missing there
  bool huge_known = false;        // resident bytes on huge pages are known
};

// Error: the process may not be inspected, it has ended, or `by` has passed. Needs the same user and the kernel's
// permission. Takes about 20 ms for each GiB of sampled blocks and of mappings. `gone`: which of the snapshot's
// live_threads have ended.
absl::StatusOr<Residency> ReadResidency(pid_t pid, const TableFile& table, const TableSnapshot& snapshot,
                                        const std::vector<bool>& gone, const Deadline& by);

// Returns the pages of a range, reading up to 64 MiB at a time; nothing if `by` has passed.
std::optional<PageTable::Share> ShareOf(uint64_t address, uint64_t bytes, PageTable* pages, const Deadline& by);

// Adds the rows of known blocks, and returns the pages of each block; nothing if `by` has passed.
std::optional<std::vector<PageTable::Share>> AddResidentRows(const std::vector<LiveBlock>& blocks, PageTable* pages,
                                                             const Deadline& by, std::vector<ResidentRow>* to);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_RESIDENT_ROWS_H_
