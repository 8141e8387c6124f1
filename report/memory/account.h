// The account of a process's resident memory: every resident byte in one line, and the lines add up to what the kernel says.
//
//     resident = live blocks + what the allocator keeps beyond them + files + shared memory + stacks + Holdfast's own
//                + mappings of the program's own + the rest
//
// Live blocks are estimated from the sampled ones, and with them what the allocator keeps, by the same error: each sampled block's
// pages are looked up in the page table, and the block stands for 1/p of its kind (sampler/contract/weight.h). Everything else is
// counted. The allocator's are the mappings in which sampled live blocks lie, [heap], and glibc's arenas.
// What was mapped without malloc the wrappers of mmap have seen (own_ranges.h): the program's own is told from an allocator's, which is that of the
// library that has malloc. What nobody saw, and holds no sampled block, is the rest.
// Rounding is estimated from the same blocks: what glibc's heads and alignment, or jemalloc's size classes, add to each.
// Where glibc's free chunks are counted (a running process), its live blocks follow from them: what is resident of its heaps is
// free, or it is a live block with its head. Then only the rounding and the blocks in mappings of their own are estimates.
// glibc maps each large block for itself, and the kernel joins neighbours: of such mappings the allocator has what the blocks in
// them have, and the rest the remainder, by the same estimate.
#ifndef HOLDFAST_REPORT_MEMORY_ACCOUNT_H_
#define HOLDFAST_REPORT_MEMORY_ACCOUNT_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "report/memory/glibc_heaps.h"
#include "report/memory/live_blocks.h"
#include "report/memory/mappings.h"
#include "report/memory/own_ranges.h"

namespace holdfast {

struct Estimate {
  double value = 0, variance = 0;
  int64_t error() const;  // half of the 95 % interval
};

struct MemoryAccount {
  // Bytes, resident.
  uint64_t total = 0, allocator = 0, files = 0, shared = 0, stacks = 0, own = 0, mapped = 0, rest = 0;
  Estimate
      live;  // the part of `allocator` that live blocks have, all of it at most; the difference is what it keeps beyond them
  Estimate rounding;  // the part of `allocator` by which live blocks are larger than what was asked for
  double beyond_variance = 0, rest_variance = 0;
  bool is_counted = false;  // live blocks follow from the free chunks of glibc's heaps
  // The parts of `allocator` and of `live` in glibc's heaps.
  uint64_t glibc_heaps = 0;
  Estimate glibc_live;
  // Of live blocks, as they are estimated, wherever they lie.
  Estimate in_use, in_use_resident, in_use_swapped;
  uint64_t swapped = 0, huge = 0;
  uint64_t hugetlb = 0;                                   // beside `total`: the kernel counts that apart
  uint64_t heaps = 0;                                     // mappings of the allocator
  uint64_t arenas = 0;                                    // of glibc, besides the main one
  uint64_t threads = 0;                                   // whose stacks were found
  uint64_t sampled = 0;                                   // live blocks
  std::string allocator_name;                             // "glibc", "jemalloc", …; "" = not known
  std::vector<std::pair<std::string, uint64_t>> by_file;  // the largest first
  uint32_t parent = 0;    // the process that it was forked from, where it has not executed another program since
  bool has_pages = true;  // false: the page table could not be read, so what is resident of live blocks is not known
};

struct AccountInput {
  std::vector<MemoryMapping> mappings;
  std::vector<LiveBlock> blocks;         // by address
  std::vector<AddressRange> ranges;      // that were mapped without malloc, by address; they may overlap
  std::vector<uint64_t> stack_pointers;  // of its threads, as far as they are known
  std::set<uint64_t> arenas;             // where glibc's heaps besides the main one begin
  std::string table_name;                // of the file that Holdfast keeps its tables in
};
MemoryAccount AccountOf(const AccountInput& input, PageTable* pages);

// Makes live blocks what the free chunks leave of glibc's heaps. The program runs on while both are read: where more is free than
// the heaps have resident, `free` is cut to that.
void CountLive(FreeMemory* free, MemoryAccount* account);

// Of a running process that has this table. `free`: what glibc has free, where its malloc is in use; that reads all of its heaps
// (0.5 s a GiB). Null: not asked for.
absl::StatusOr<MemoryAccount> ReadAccount(pid_t pid, const TableFile& table, std::optional<FreeMemory>* free = nullptr);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_ACCOUNT_H_
