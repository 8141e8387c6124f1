#include "interpose/maps/allocator_code.h"

#include <dlfcn.h>
#include <link.h>

namespace holdfast {

constinit AllocatorCode allocator_code{};

void FindAllocatorCode(const void* function) {
  dl_find_object found;
  if (function == nullptr || _dl_find_object(const_cast<void*>(function), &found) != 0) return;
  if (found.dlfo_link_map == _r_debug.r_map) return;  // the program
  const auto start = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  allocator_code = {start, reinterpret_cast<uintptr_t>(found.dlfo_map_end) - start};
}

}  // namespace holdfast
