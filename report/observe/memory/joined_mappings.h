// The kernel joins private mappings that touch and have the same rights: a thread's stack with what was mapped before it,
// directly above. (Since Linux 6.7 large mappings begin at multiples of 2 MiB and touch less often.)
//
//     one mapping:  [ stack, with a stack pointer | block | block | the program's range ]
//     two parts:    [ stack                       ][ block | block | the program's range ]
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_JOINED_MAPPINGS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_JOINED_MAPPINGS_H_

#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "report/observe/memory/live_blocks.h"
#include "report/observe/memory/mappings.h"
#include "report/observe/memory/own_ranges.h"

namespace holdfast {

bool IsPrivateMemory(const MemoryMapping& mapping);
// Returns whether a mapping is zero-initialized data of a program or library (.bss): not in the file, but mapped directly
// after it.
bool IsDataAfterFile(std::span<const MemoryMapping> mappings, size_t index);

// Appends the parts of `mapping`, cut at `bounds`, which are inside it. Each gets its own resident bytes from `pages`, all
// together those of the whole; null: each keeps those of the whole.
void CutAt(const std::set<uint64_t>& bounds, const MemoryMapping& mapping, PageTable* pages,
           std::vector<MemoryMapping>* parts);

// What is known to be in the process's memory, by address.
struct KnownMemory {
  std::span<const OwnRange> ranges;   // mapped by the program, or by its allocator
  std::span<const LiveBlock> blocks;  // sampled
  const std::set<uint64_t>& arenas;   // as FindArenas
};

// Returns the starts of the threads' stacks. Each becomes a mapping of its own, which ends where the next known memory
// begins. If the page table cannot be read, no mapping is cut.
//
// A stack is around a stack pointer, or above a guard of at most 64 KiB. Blocks, and ranges of more than 16 MiB that the
// program has mapped, are none: such a range is a pool that also has stacks in it, or a heap.
std::set<uint64_t> FindStacks(const KnownMemory& known, std::vector<uint64_t> stack_pointers, PageTable* pages,
                              std::vector<MemoryMapping>* mappings);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_JOINED_MAPPINGS_H_
