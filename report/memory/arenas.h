// glibc's arenas besides the main one, by how their heaps lie in memory.
#ifndef HOLDFAST_REPORT_MEMORY_ARENAS_H_
#define HOLDFAST_REPORT_MEMORY_ARENAS_H_

#include "report/memory/mappings.h"
#include "report/table/thread_status.h"

namespace holdfast {

bool IsPrivateMemory(const MemoryMapping& mapping);

// Whether a heap of an arena begins with it.
bool IsArena(const MemoryMapping& mapping, const ProcessMemory& memory);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_MEMORY_ARENAS_H_
