#include "report/run/memory_limits.h"

#include <stdlib.h>

#include <sstream>
#include <string_view>

#include "report/run/doctor_surroundings.h"

namespace holdfast {

uint64_t StatusBytes(const std::string& process, const char* field) {  // "VmSize:  5512 kB"
  uint64_t kib = 0;
  std::istringstream(StatusField(process, field)) >> kib;
  return kib << 10;
}

std::vector<std::string> MemoryLimitsBelow(const std::string& process, uint64_t mapped, uint64_t data) {
  std::vector<std::string> below;
  const auto has_room = [&](std::string_view title, const char* used, uint64_t need) {
    const uint64_t limit = LimitOf(process, title).value_or(UINT64_MAX);
    return limit == UINT64_MAX || StatusBytes(process, used) + need <= limit;
  };
  if (!has_room("Max address space", "VmSize", mapped))
    below.emplace_back("has no address space left for the library (RLIMIT_AS, ulimit -v). Raise it with prlimit --as");
  if (!has_room("Max data size", "VmData", data))
    below.emplace_back("may map no more memory (RLIMIT_DATA, ulimit -d). Raise it with prlimit --data");
  // After mlockall(MCL_FUTURE) new memory is locked, too. That is not told, but nearly all memory is locked then.
  constexpr int kIpcLock = 14;
  const uint64_t locked = StatusBytes(process, "VmLck");
  const bool is_bound = (strtoull(StatusField(process, "CapEff").c_str(), nullptr, 16) >> kIpcLock & 1) == 0;
  if (is_bound && locked > StatusBytes(process, "VmSize") / 2 && !has_room("Max locked memory", "VmLck", mapped)) {
    below.emplace_back(
        "has locked its memory (mlockall), and may lock no more, as the library would need if that includes new memory "
        "(RLIMIT_MEMLOCK, ulimit -l). Raise it with prlimit --memlock");
  }
  return below;
}

}  // namespace holdfast
