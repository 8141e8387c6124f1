// The account of a process's resident memory: every resident byte is in one line, and the lines add up to the kernel's
// figure.
//
//    resident = live blocks + what the allocator keeps beyond them + files + shared memory + stacks + Holdfast's own
//               + the program's own mappings + the rest
//
// Live blocks are estimated from samples: the pages of each sampled block are looked up in the page table, and the
// block represents 1/p blocks (sampler/contract/weight.h). What the allocator keeps is the difference, with the same
// error. Everything else is counted exactly. The allocator's mappings are those with sampled live blocks, [heap], and
// glibc's arenas.
//
// The wrappers of mmap record memory that is mapped without malloc (own_ranges.h). Ranges mapped by the library with
// malloc are the allocator's, others are the program's own. A mapping that nobody recorded and that contains no sampled
// block is the rest.
//
// Rounding is estimated from the same blocks: what glibc's heads and alignment, or jemalloc's size classes, add to each
// block.
//
// In a running process glibc's free chunks are counted, and the live blocks follow: every resident byte of its heaps is
// free, or belongs to a live block and its head. Then only the rounding and the blocks in separate mappings are
// estimates.
//
// glibc maps each large block separately, and the kernel merges adjacent mappings. Of such mappings the estimated size
// of their blocks is the allocator's, and the remainder is the rest.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/observe/memory/glibc_heaps.h"
#include "report/observe/memory/live_blocks.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/memory/own_ranges.h"

namespace holdfast {

struct Estimate {
  double value = 0, variance = 0;
  int64_t error() const;  // half-width of the 95 % interval
};

struct MemoryAccount {
  // Resident bytes.
  uint64_t total = 0, allocator = 0, files = 0, shared = 0, stacks = 0, own = 0, mapped = 0, rest = 0;
  Estimate live;      // the live blocks' part of `allocator`, at most all of it; the allocator keeps the difference
  Estimate rounding;  // the part of `allocator` by which live blocks exceed their requested sizes
  double beyond_variance = 0, rest_variance = 0;
  bool is_counted = false;  // live blocks are derived from the free chunks of glibc's heaps
  // Blocks are in use that no sample represents (report/profile/unrecorded_blocks.h). If live blocks are not counted, the
  // allocator's remainder is free memory or such blocks.
  bool lacks_blocks = false;
  bool may_hold_blocks() const { return lacks_blocks && !is_counted; }
  bool is_attached = false;  // recording began with holdfast attach, in this process
  // Live blocks in glibc's heaps that are not recorded. Known if they are counted.
  std::optional<Estimate> unrecorded;
  bool has_gaps = false;  // some of these are younger than the attach: the table was full, or recording was off
  // The parts of `allocator` and of `live` in glibc's heaps.
  uint64_t glibc_heaps = 0;
  Estimate glibc_live;
  // Estimates for all live blocks, in any mapping.
  Estimate in_use, in_use_resident, in_use_swapped;
  uint64_t swapped = 0, huge = 0;
  uint64_t hugetlb = 0;                                   // not part of `total`: the kernel counts it separately
  uint64_t heaps = 0;                                     // the allocator's mappings
  uint64_t arenas = 0;                                    // glibc's arenas except the main one
  uint64_t threads = 0;                                   // threads with known stacks
  uint64_t sampled = 0;                                   // live blocks
  std::string allocator_name;                             // "glibc", "jemalloc", …; "" = unknown
  std::vector<std::pair<std::string, uint64_t>> by_file;  // largest first
  uint32_t parent = 0;    // the process from which this one was forked, if it has not executed another program since
  bool has_pages = true;  // false: the page table could not be read, so the resident bytes of live blocks are unknown
};

struct AccountInput {
  std::vector<MemoryMapping> mappings;
  std::vector<LiveBlock> blocks;         // by address
  std::vector<OwnRange> ranges;          // mapped without malloc, by address; may overlap
  std::vector<uint64_t> stack_pointers;  // of the threads, if known
  std::set<uint64_t> arenas;             // start addresses of glibc's heaps except the main one
  std::set<uint64_t> stacks;             // start addresses of threads' stacks: FindStacks
  std::string table_name;                // file name of Holdfast's table
  bool replaces_malloc = false;          // the executable has a malloc of its own, which may use [heap]
};
MemoryAccount AccountOf(const AccountInput& input, PageTable* pages);

// Whether enough of the heaps could be read for CountLive. Where nearly nothing is free, little may be unread, too.
bool IsRead(const FreeMemory& free, const MemoryAccount& account);

// Derives the live blocks: what the free chunks leave of glibc's heaps. The program runs while both are read, so `free`
// is reduced if it exceeds the resident size of the heaps.
void CountLive(FreeMemory* free, MemoryAccount* account);

// Returns the account of the running process that has this table. `free`: glibc's free memory, if its malloc is in use;
// this reads all its heaps (0.5 s for each GiB). Null: not requested.
absl::StatusOr<MemoryAccount> ReadAccount(pid_t pid, const TableFile& table, std::optional<FreeMemory>* free = nullptr);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_ACCOUNT_H_
