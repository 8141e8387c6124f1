#include "report/run/memory_limits.h"

#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <sstream>
#include <string_view>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/split.h"
#include "report/observe/outside/frozen_group.h"
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

// The field of memory.stat in bytes; 0: there is none.
static uint64_t FieldOf(const std::string& stat, const char* field) {
  const size_t at = ("\n" + stat).find(fmt::format("\n{} ", field));
  return at == std::string::npos ? 0 : strtoull(stat.c_str() + at + strlen(field), nullptr, 10);
}

std::optional<GroupLimit> TightestGroup(pid_t pid) {
  constexpr size_t kMaxText = 1 << 20;
  // Version 1 has a number near 2^63 where there is no limit.
  constexpr uint64_t kNoLimit = uint64_t{1} << 60;
  const std::string mounts = ReadWhole("/proc/self/mountinfo", kMaxText);
  const std::string groups = ReadWhole(fmt::format("/proc/{}/cgroup", pid), kMaxText);
  std::optional<GroupLimit> tightest;
  for (const std::string_view line : Split(groups, "\n")) {
    for (const bool is_v2 : {true, false}) {
      for (std::string folder = GroupFolder(line, mounts, is_v2, "memory"); !folder.empty();
           folder.resize(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'))) {
        const auto number_in = [&](const char* v2, const char* v1) {
          const std::string text = ReadWhole(folder + (is_v2 ? v2 : v1), kMaxText);
          return text.empty() || text.starts_with("max") ? UINT64_MAX : strtoull(text.c_str(), nullptr, 10);
        };
        const uint64_t limit = number_in("/memory.max", "/memory.limit_in_bytes");
        if (limit >= kNoLimit) continue;
        uint64_t used = number_in("/memory.current", "/memory.usage_in_bytes");
        const std::string stat = ReadWhole(folder + "/memory.stat", kMaxText);
        // What the kernel drops first. Version 1 does not tell of slabs.
        for (const char* kind : {"inactive_file", "active_file", "slab_reclaimable"})
          used -= std::min(used, FieldOf(stat, is_v2 ? kind : fmt::format("total_{}", kind).c_str()));
        const uint64_t left = limit - std::min(limit, used);
        if (!tightest.has_value() || left < tightest->left_bytes) tightest = {folder, left};
      }
    }
  }
  return tightest;
}

}  // namespace holdfast
