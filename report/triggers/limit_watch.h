// The memory limits of the control groups that served processes are in: says when one of them comes near. Always at work; where there
// is no limit, that is asked about every ten seconds.
//
// A look reads two files a level; near the limit a third. Far from it once a second, near it every 5 ms to 40 ms.
#ifndef HOLDFAST_REPORT_TRIGGERS_LIMIT_WATCH_H_
#define HOLDFAST_REPORT_TRIGGERS_LIMIT_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/table/memory_room.h"
#include "report/triggers/limit_state.h"

namespace holdfast {

// What a snapshot of the heap alone, without names, takes while it is built, besides a few times its table.
inline constexpr int64_t kLeanSnapshotBytes = 6 << 20;

class LimitedGroup {
 public:
  explicit LimitedGroup(const std::string& process) : levels_(process) {}
  // Told once: "memory limit at 231MiB of 256MiB". `takes`: see LimitState.
  std::optional<std::string> Look(int64_t takes, int64_t now_ns);
  int64_t next_look_ns() const { return next_look_ns_; }

 private:
  MemoryLevels levels_;
  LimitState state_;
  int64_t next_look_ns_ = 0;
};

class LimitWatch {
 public:
  // The group that this process is in now.
  std::shared_ptr<LimitedGroup> GroupOf(pid_t process);
  // Looks at the groups for which it is time: those that are near their limit, and what is to be said of them.
  std::vector<std::pair<const LimitedGroup*, std::string>> Look(int64_t takes, int64_t now_ns);
  // When the next look is due.
  int64_t NextLookNs(int64_t latest_ns) const;

 private:
  std::map<std::string, std::shared_ptr<LimitedGroup>> groups_;  // by what /proc/PID/cgroup says
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TRIGGERS_LIMIT_WATCH_H_
