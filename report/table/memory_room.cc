#include "report/table/memory_room.h"

#include <algorithm>
#include <fstream>
#include <initializer_list>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace holdfast {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 says 2^63 less a page for none

// Nothing where there is no such file, and for "max".
std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  int64_t value = 0;
  if (!std::getline(file, line) || !absl::SimpleAtoi(line, &value) || value >= kNoLimit) return std::nullopt;
  return value;
}

// A line "inactive_file 123456" of memory.stat.
int64_t StatOf(const std::string& folder, const std::string& name) {
  std::ifstream file(folder + "/memory.stat");
  std::string key;
  for (int64_t value = 0; file >> key >> value;) {
    if (key == name) return value;
  }
  return 0;
}

void LookAt(const std::string& folder, const std::string& used_name, const std::string& reclaimable_name,
            std::initializer_list<const char*> limits, std::optional<MemoryRoom>* least) {
  const std::optional<int64_t> used = NumberIn(absl::StrCat(folder, "/", used_name));
  if (!used.has_value()) return;
  for (const char* name : limits) {
    const std::optional<int64_t> limit = NumberIn(absl::StrCat(folder, "/", name));
    if (!limit.has_value()) continue;
    const int64_t left = std::max<int64_t>(0, *limit - *used + StatOf(folder, reclaimable_name));
    if (!least->has_value() || left < (*least)->left_bytes) *least = MemoryRoom{*limit, *used, left, name};
  }
}

}  // namespace

std::optional<MemoryRoom> MemoryRoomOf(const std::string& process) {
  std::optional<MemoryRoom> least;
  std::ifstream groups(absl::StrCat("/proc/", process, "/cgroup"));
  // "4:memory:/docker/abc" or "0::/system.slice/x.service".
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    std::string path = line.substr(second + 1);
    // In a container the path may be that of the host, and the root of what is mounted is the container's own group.
    while (true) {
      if (unified) {
        for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
          LookAt(root + path, "memory.current", "inactive_file", {"memory.max", "memory.high"}, &least);
        }
      } else {
        LookAt("/sys/fs/cgroup/memory" + path, "memory.usage_in_bytes", "total_inactive_file",
               {"memory.limit_in_bytes"}, &least);
      }
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.resize(slash);
    }
  }
  return least;
}

}  // namespace holdfast
