// Watches the memory limits of the served processes' control groups and reports when one is nearly reached. Always
// active; a group without a limit is checked about every ten seconds.
//
// A look reads two files for each level, and a third near the limit. It is due once a second far from the limit, and
// every 5 ms to 40 ms near it.
#ifndef HOLDFAST_REPORT_DAEMON_LIMIT_WATCH_H_
#define HOLDFAST_REPORT_DAEMON_LIMIT_WATCH_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "report/daemon/limit_state.h"
#include "report/observe/table/memory_room.h"

namespace holdfast {

// Memory for building a snapshot of only the heap, without names, in addition to a few times its table.
inline constexpr int64_t kLeanSnapshotBytes = 6 << 20;

class LimitedGroup {
 public:
  explicit LimitedGroup(const std::string& process) : levels_(process) {}
  // Returned once: "memory limit at 231MiB of 256MiB". `takes`: see LimitState.
  std::optional<std::string> Look(int64_t takes, int64_t now_ns);
  int64_t next_look_ns() const { return next_look_ns_; }

 private:
  MemoryLevels levels_;
  LimitState state_;
  int64_t next_look_ns_ = 0;
};

class LimitWatch {
 public:
  // Returns the group that this process is in now.
  std::shared_ptr<LimitedGroup> GroupOf(pid_t process);
  // Checks the groups that are due. Returns those near their limit, with the reason for the snapshot.
  std::vector<std::pair<const LimitedGroup*, std::string>> Look(int64_t takes, int64_t now_ns);
  // Returns when the next look is due.
  int64_t NextLookNs(int64_t latest_ns) const;

 private:
  std::map<std::string, std::shared_ptr<LimitedGroup>> groups_;  // by the contents of /proc/PID/cgroup
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_LIMIT_WATCH_H_
