// An allocator that is linked into a program's executable: its calls do not pass through the library.
#ifndef HOLDFAST_REPORT_PROCESSES_LINKED_ALLOCATOR_H_
#define HOLDFAST_REPORT_PROCESSES_LINKED_ALLOCATOR_H_

#include <string>

#include "report/elf/dynamic_names.h"

namespace holdfast {

struct LinkedAllocator {
  bool is_there = false;
  bool replaces_malloc = false;  // the executable defines malloc and free themselves
  std::string text = {};         // what is not seen, and what to do; one line
};

// `path`: of the executable that `names` were read from.
LinkedAllocator LinkedAllocatorOf(const std::string& path, const DynamicNames& names);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_LINKED_ALLOCATOR_H_
