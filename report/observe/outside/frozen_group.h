// Whether a control group has frozen a process (`docker pause`, `systemctl freeze`): no thread of it runs until it is thawed.
#ifndef HOLDFAST_REPORT_OBSERVE_OUTSIDE_FROZEN_GROUP_H_
#define HOLDFAST_REPORT_OBSERVE_OUTSIDE_FROZEN_GROUP_H_

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

// Answers again and again for one process. Reads the mounts, which may be thousands, only when the process has changed its group.
class FrozenGroup {
 public:
  explicit FrozenGroup(pid_t pid) : pid_(pid) {}

  // "its control group /docker/4711 is frozen"; "": it is not, or that cannot be told. Both versions of control groups.
  std::string Why();

 private:
  struct State {
    std::string file, group;
    bool is_v2;
  };
  void FindStates();

  pid_t pid_;
  std::string groups_;  // /proc/PID/cgroup
  std::vector<State> states_;
};

// The same, once.
std::string WhyFrozen(pid_t pid);

// The path of a control group's folder, from a line of /proc/PID/cgroup and the text of /proc/self/mountinfo. `is_v2`: of the
// hierarchy of version 2; else of this controller of version 1. "": the line is of another hierarchy, or it is not mounted here.
std::string GroupFolder(std::string_view line, std::string_view mounts, bool is_v2,
                        std::string_view controller = "freezer");

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_OUTSIDE_FROZEN_GROUP_H_
