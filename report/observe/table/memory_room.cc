#include "report/observe/table/memory_room.h"

#include <algorithm>
#include <fstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace holdfast {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 has 2^63 minus a page for no limit

// Returns nothing if the file does not exist, and for "max".
std::optional<int64_t> NumberIn(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  int64_t value = 0;
  if (!std::getline(file, line) || !absl::SimpleAtoi(line, &value) || value >= kNoLimit) return std::nullopt;
  return value;
}

// Reads a line "inactive_file 123456" of memory.stat.
int64_t StatOf(const std::string& folder, const std::string& name) {
  std::ifstream file(folder + "/memory.stat");
  std::string key;
  for (int64_t value = 0; file >> key >> value;) {
    if (key == name) return value;
  }
  return 0;
}

// File names in cgroup version 2 and 1.
const char* UsedName(bool unified) { return unified ? "memory.current" : "memory.usage_in_bytes"; }
const char* ReclaimableName(bool unified) { return unified ? "inactive_file" : "total_inactive_file"; }
const char* KillName(bool unified) { return unified ? "memory.max" : "memory.limit_in_bytes"; }

void LookAt(const std::string& folder, bool unified, const char* limit_name, bool always_reclaimable,
            std::optional<MemoryRoom>* least) {
  const std::optional<int64_t> limit = NumberIn(absl::StrCat(folder, "/", limit_name));
  const std::optional<int64_t> used =
      limit.has_value() ? NumberIn(absl::StrCat(folder, "/", UsedName(unified))) : std::nullopt;
  if (!used.has_value()) return;
  int64_t left = *limit - *used;
  if (always_reclaimable || left < *limit / 4) left += StatOf(folder, ReclaimableName(unified));
  left = std::max<int64_t>(0, left);
  if (!least->has_value() || left < (*least)->left_bytes) *least = MemoryRoom{*limit, *used, left, limit_name};
}

}  // namespace

MemoryLevels::MemoryLevels(const std::string& process) {
  std::ifstream groups(absl::StrCat("/proc/", process, "/cgroup"));
  const auto add = [this](const std::string& folder, bool unified) {
    if (NumberIn(absl::StrCat(folder, "/", UsedName(unified))).has_value()) levels_.push_back({folder, unified});
  };
  // "4:memory:/docker/abc" or "0::/system.slice/x.service".
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool unified = controllers == ",,";
    if (!unified && controllers.find(",memory,") == std::string::npos) continue;
    absl::StrAppend(&name_, line, "\n");
    std::string path = line.substr(second + 1);
    // In a container the path may be the host's, while the mounted root is the container's own group.
    while (true) {
      if (unified) {
        for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) add(root + path, true);
      } else {
        add("/sys/fs/cgroup/memory" + path, false);
      }
      const size_t slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.resize(slash);
    }
  }
}

std::optional<MemoryRoom> MemoryLevels::Room() const {
  std::optional<MemoryRoom> least;
  for (const Level& level : levels_) {
    LookAt(level.folder, level.unified, KillName(level.unified), true, &least);
    if (level.unified) LookAt(level.folder, true, "memory.high", true, &least);
  }
  return least;
}

std::optional<MemoryRoom> MemoryLevels::RoomBeforeKill() const {
  std::optional<MemoryRoom> least;
  for (const Level& level : levels_) LookAt(level.folder, level.unified, KillName(level.unified), false, &least);
  return least;
}

int64_t MemoryLevels::limit_bytes() const {
  int64_t least = 0;
  for (const Level& level : levels_) {
    const std::optional<int64_t> limit = NumberIn(absl::StrCat(level.folder, "/", KillName(level.unified)));
    if (limit.has_value() && (least == 0 || *limit < least)) least = *limit;
  }
  return least;
}

std::optional<MemoryRoom> MemoryRoomOf(const std::string& process) { return MemoryLevels(process).Room(); }

}  // namespace holdfast
