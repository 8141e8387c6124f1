// glibc's arenas besides the main one, by how their heaps lie in memory.
#ifndef HOLDFAST_REPORT_MEMORY_ARENAS_H_
#define HOLDFAST_REPORT_MEMORY_ARENAS_H_

#include <cstdint>
#include <set>
#include <vector>

#include "report/memory/mappings.h"
#include "report/table/thread_status.h"

namespace holdfast {

bool IsPrivateMemory(const MemoryMapping& mapping);

// Where their heaps begin. The kernel joins neighbours, of which one may be a thread's stack: each heap becomes a mapping of its own,
// `resident`: with what `pages` says of both parts. Nothing is read where the program has never written.
std::set<uint64_t> FindArenas(const ProcessMemory& memory, PageTable* pages, bool resident,
                              std::vector<MemoryMapping>* mappings);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_ARENAS_H_
