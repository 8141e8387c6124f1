// What of the live sampled blocks is resident, row by row: looked up in the page table, from outside, each by its own pages.
//
//     live samples                     /proc/PID/pagemap                  a row
//     0x7f12a010  300 B  row 7   ──►   page 7f12a: present           ┐
//     0x7f12afc0  100 B  row 7   ──►   64 B present, 36 B swapped    ┴►  400 B in use, 364 B resident
//
// A block has of a page the bytes that it lies on, so blocks that share a page share it; what no block lies on is in no row. Each
// block counts 1/p times, as in what is in use (sampler/contract/weight.h): so these are unbiased, too, with Σ r²(1−p)/p².
// A page that the kernel gave all who only read (the page of zeros) is not resident, where the kernel tells (PAGEMAP_SCAN, Linux 6.7).
#ifndef HOLDFAST_REPORT_MEMORY_RESIDENT_ROWS_H_
#define HOLDFAST_REPORT_MEMORY_RESIDENT_ROWS_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "report/base/time_budget.h"
#include "report/memory/live_blocks.h"
#include "report/memory/mappings.h"
#include "report/table/snapshot.h"

namespace holdfast {

// Fills resident_rows and what belongs to them. An error says why it cannot be known: nobody may look, the process has ended meanwhile, or `by` has passed; then
// nothing is filled in. Same user, and the kernel's leave to look. Some 20 ms for each GiB of sampled blocks, and of mappings.
absl::Status ReadResidentRows(pid_t pid, const TableFile& table, const Deadline& by, Snapshot* snapshot);

// The pages of a range, up to 64 MiB at a time; nothing: `by` has passed.
std::optional<PageTable::Share> ShareOf(uint64_t address, uint64_t bytes, PageTable* pages, const Deadline& by);

// The rows of blocks that are known; and of each block its pages. Nothing: `by` has passed.
std::optional<std::vector<PageTable::Share>> AddResidentRows(const std::vector<LiveBlock>& blocks, PageTable* pages,
                                                             const Deadline& by, Snapshot* snapshot);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_RESIDENT_ROWS_H_
