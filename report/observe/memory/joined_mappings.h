// The kernel joins private mappings that touch and have the same rights: a thread's stack with what was mapped before it,
// directly above. (Since Linux 6.7 large mappings begin at multiples of 2 MiB and touch less often.)
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

// Returns whether an inaccessible small mapping is directly below, as pthreads places it below a stack.
bool HasGuard(std::span<const MemoryMapping> mappings, size_t index);

// Appends the parts of `mapping`, cut at `bounds`, which are inside it. Each gets its own resident bytes from `pages`; null:
// they keep those of the whole.
void CutAt(const std::set<uint64_t>& bounds, const MemoryMapping& mapping, PageTable* pages,
           std::vector<MemoryMapping>* parts);

// Makes the stack, and what is known to have been mapped beside it, mappings of their own: the program's and its
// allocator's ranges, and large blocks of glibc. `arenas`: starts of mappings that are no stacks. Does nothing if the page
// table cannot be read. All sorted by address but `stack_pointers`.
void SetStacksApart(std::span<const OwnRange> ranges, std::span<const LiveBlock> blocks,
                    std::span<const uint64_t> stack_pointers, const std::set<uint64_t>& arenas, PageTable* pages,
                    std::vector<MemoryMapping>* mappings);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_JOINED_MAPPINGS_H_
