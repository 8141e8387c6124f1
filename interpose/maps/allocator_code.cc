#include "interpose/maps/allocator_code.h"

#include "sampler/capture/find_object.h"
#include "sampler/contract/loaded_objects.h"

namespace holdfast {

constinit AllocatorCode allocator_code{};

void FindAllocatorCode(const void* function) {
  dl_find_object found;
  if (function == nullptr || !FindObject(function, &found)) return;
  if (found.dlfo_link_map == FirstObject()) return;  // the program
  const auto start = reinterpret_cast<uintptr_t>(found.dlfo_map_start);
  allocator_code = {start, reinterpret_cast<uintptr_t>(found.dlfo_map_end) - start};
}

}  // namespace holdfast
