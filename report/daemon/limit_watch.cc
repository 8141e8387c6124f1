#include "report/daemon/limit_watch.h"

#include <algorithm>

#include "fmt/format.h"
#include "report/base/proc_file.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"

namespace holdfast {
namespace {

constexpr int64_t kWithoutLimit = 10 * kSecond;
constexpr size_t kMaxText = 64 << 10;

}  // namespace

std::optional<std::string> LimitedGroup::Look(int64_t takes, int64_t now_ns) {
  const std::optional<MemoryRoom> room = levels_.RoomBeforeKill();
  if (!room.has_value()) {
    next_look_ns_ = now_ns + kWithoutLimit;
    return std::nullopt;
  }
  const bool due = state_.Look(room->limit_bytes, room->left_bytes, takes, now_ns);
  next_look_ns_ = now_ns + state_.LookAgainIn();
  if (!due) return std::nullopt;
  return fmt::format("memory limit at {} of {}", FormatSize(room->limit_bytes - room->left_bytes),
                     FormatSize(room->limit_bytes));
}

std::shared_ptr<LimitedGroup> LimitWatch::GroupOf(pid_t process) {
  const std::string name = fmt::format("{}", process);
  const std::string groups = ReadProcFile(fmt::format("/proc/{}/cgroup", process), kMaxText);
  if (groups.empty()) return nullptr;
  std::shared_ptr<LimitedGroup>& group = groups_[groups];
  if (group == nullptr) group = std::make_shared<LimitedGroup>(name);
  return group;
}

std::vector<std::pair<const LimitedGroup*, std::string>> LimitWatch::Look(int64_t takes, int64_t now_ns) {
  std::vector<std::pair<const LimitedGroup*, std::string>> near;
  for (const auto& [name, group] : groups_) {
    if (now_ns < group->next_look_ns()) continue;
    if (std::optional<std::string> text = group->Look(takes, now_ns)) near.emplace_back(group.get(), *std::move(text));
  }
  // No process uses these groups any more.
  std::erase_if(groups_, [](const auto& entry) { return entry.second.use_count() == 1; });
  return near;
}

int64_t LimitWatch::NextLookNs(int64_t latest_ns) const {
  for (const auto& [name, group] : groups_) latest_ns = std::min(latest_ns, group->next_look_ns());
  return latest_ns;
}

}  // namespace holdfast
