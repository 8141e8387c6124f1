// Finds glibc's arenas except the main one, by the memory layout of their heaps.
#ifndef HOLDFAST_REPORT_OBSERVE_MEMORY_ARENAS_H_
#define HOLDFAST_REPORT_OBSERVE_MEMORY_ARENAS_H_

#include <cstdint>
#include <set>
#include <vector>

#include "report/observe/memory/mappings.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {

inline constexpr uint64_t kArenaHeapBytes = uint64_t{64} << 20;  // glibc: HEAP_MAX_SIZE

// Returns the start addresses of the arenas' heaps. The kernel merges adjacent mappings, and a heap's neighbour may be
// a thread's stack: each heap becomes a mapping of its own in `mappings`. With `kParts` both parts get their resident
// bytes from `pages`.
enum class ArenasSay { kWhere, kParts };
std::set<uint64_t> FindArenas(const ProcessMemory& memory, PageTable* pages, ArenasSay say,
                              std::vector<MemoryMapping>* mappings);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_MEMORY_ARENAS_H_
