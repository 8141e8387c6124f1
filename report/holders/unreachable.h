// Finds blocks that no root reaches, in a running process, without stopping it.
//
// A scan takes a while, and the program moves pointers meanwhile: a pointer that moves from memory not yet read to
// memory already read is missed. So the first scan yields candidates. Each further scan searches all other memory for
// pointers to candidates, and drops those that it finds, and all that they lead to. Blocks that were freed or changed
// their size are dropped as well. The missed ones decrease by a factor of about 4 with each scan, so scans are repeated
// until fewer than 0.001 blocks are expected to be false, at most kMaxScans times. If no thread ran during a scan, that
// scan is exact.
//
//     scan 1: 4,210 candidates      scan 2: 61 dropped      scan 3: 12 dropped      scan 4 … 9: 0 dropped      settled
//
// Memory: the block map and two bits for each block; 16 bytes for each candidate. Sparse pointers are followed with
// reads of many blocks at once, dense ones by reading whole pieces of the heap.
//
// Pointers in the registers of threads are invisible unless the threads are stopped. `hidden_registers` counts how many of
// these may hold a block: of a sleeping thread those that functions preserve, of a running one all, with the vectors.
#ifndef HOLDFAST_REPORT_HOLDERS_UNREACHABLE_H_
#define HOLDFAST_REPORT_HOLDERS_UNREACHABLE_H_

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "report/holders/address_space.h"
#include "report/holders/heap_blocks.h"

namespace holdfast {

inline constexpr int kMaxScans = 12;
// Registers of a sleeping thread that functions preserve, and all of a running thread with the vectors. AArch64 has more.
inline constexpr uint32_t kPreservedRegisters = 6, kAllRegisters = 16 + 32;
inline constexpr uint32_t kPreservedOfAarch64 = 19, kAllOfAarch64 = 31 + 64;

struct UnreachableBlock {
  MemoryRange range;
  bool direct = true;  // false: another unreachable block leads to it
};

struct Unreachable {
  std::vector<UnreachableBlock> blocks;  // by address
  int scans = 0;
  bool settled = false;
  bool is_complete = true;  // false: the program changed its heap so fast that the last scan could not read it
  bool exact = false;       // no thread ran during the last scan, or the memory does not change
  uint32_t hidden_registers = 0;
  uint64_t all_blocks = 0, all_bytes = 0;  // used ones, in the last scan
  BlockSource source = BlockSource::kNone;
  bool knows_free = true;
  uint64_t heap_bytes = 0, unknown_bytes = 0;  // see HeapBlocks
  uint32_t unknown_stacks = 0;                 // see FindRoots
};

// `prepare`: called before each scan; renews the address space and returns what is known of the process. `asleep`: see
// ProcessAddressSpace::SwitchesWhileAsleep; null: the memory does not change, so one scan is exact.
absl::StatusOr<Unreachable> FindUnreachable(AddressSpace* space,
                                            const std::function<absl::StatusOr<HeapBlocksInput>()>& prepare,
                                            const std::function<std::optional<uint64_t>()>& asleep);

// Returns how many blocks are expected to be false after scans that dropped these numbers of candidates.
double ExpectedFalse(const std::vector<uint64_t>& dropped);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_UNREACHABLE_H_
