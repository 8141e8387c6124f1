// Finds the memory that only the library uses in a process (sampler/contract/own_memory.h).
#ifndef HOLDFAST_REPORT_HOLDERS_LIBRARY_MEMORY_H_
#define HOLDFAST_REPORT_HOLDERS_LIBRARY_MEMORY_H_

#include <vector>

#include "report/holders/address_space.h"

namespace holdfast {

// Whether a mapping is a file of Holdfast's tables.
bool IsHoldfastTable(const MemoryMapping& mapping);

// By address, without overlaps; empty: the process does not have the library, or one without such a list.
std::vector<MemoryRange> FindLibraryMemory(AddressSpace* space);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HOLDERS_LIBRARY_MEMORY_H_
