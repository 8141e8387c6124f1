// What LD_PRELOAD tells about who else is in the process.
#ifndef HOLDFAST_INTERPOSE_TEXT_OF_ENVIRONMENT_H_
#define HOLDFAST_INTERPOSE_TEXT_OF_ENVIRONMENT_H_

#include <string.h>

namespace holdfast {

// memcheck, massif, dhat, helgrind and drd put a malloc of their own into the process; callgrind and lackey do not, and
// are how our own instructions are counted.
inline bool PreloadsMallocReplacingValgrind(const char* const* environment) {
  for (; *environment != nullptr; ++environment) {
    if (strncmp(*environment, "LD_PRELOAD=", 11) != 0) continue;
    for (const char* tool :
         {"vgpreload_memcheck", "vgpreload_massif", "vgpreload_dhat", "vgpreload_helgrind", "vgpreload_drd"}) {
      if (strstr(*environment, tool) != nullptr) return true;
    }
  }
  return false;
}

}  // namespace holdfast

#endif  // HOLDFAST_INTERPOSE_TEXT_OF_ENVIRONMENT_H_
