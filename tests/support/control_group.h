// For tests that freeze a process: a control group of its own.
#ifndef HOLDFAST_TESTS_SUPPORT_CONTROL_GROUP_H_
#define HOLDFAST_TESTS_SUPPORT_CONTROL_GROUP_H_

#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include "tests/support/profiled.h"

namespace holdfast::testing {

// A control group of its own for one process.
class ControlGroup {
 public:
  // `is_v2`: of the hierarchy of version 2; else of this controller of version 1.
  ControlGroup(pid_t pid, bool is_v2, const char* controller = "freezer") : is_v2_(is_v2) {
    std::istringstream mounts(ReadFile("/proc/self/mounts"));
    for (std::string line; std::getline(mounts, line);) {
      std::istringstream words(line);
      std::string source, place, kind, options;
      words >> source >> place >> kind >> options;
      const bool is_wanted = is_v2 ? kind == "cgroup2" : kind == "cgroup" && line.find(controller) != std::string::npos;
      if (is_wanted) folder_ = place + "/holdfast-test." + std::to_string(pid);
    }
    is_made_ = !folder_.empty() && mkdir(folder_.c_str(), 0755) == 0;
    if (is_made_) WriteFile(folder_ + "/cgroup.procs", std::to_string(pid));
    has_process_ = is_made_ && ReadFile(folder_ + "/cgroup.procs") == std::to_string(pid) + "\n";
  }
  ControlGroup(const ControlGroup&) = delete;
  ControlGroup& operator=(const ControlGroup&) = delete;
  ~ControlGroup() {
    if (!is_made_) return;
    Freeze(false);
    std::istringstream processes(ReadFile(folder_ + "/cgroup.procs"));
    for (std::string pid; processes >> pid;)
      WriteFile(std::filesystem::path(folder_).parent_path().string() + "/cgroup.procs", pid);
    rmdir(folder_.c_str());
  }
  // False: this system has no such groups, or lets nobody make one.
  bool has_process() const { return has_process_; }
  // False: the group has no such limit.
  bool LimitMemory(long more_than_used) const {
    const std::string used = ReadFile(folder_ + (is_v2_ ? "/memory.current" : "/memory.usage_in_bytes"));
    const std::string limit = std::to_string(strtol(used.c_str(), nullptr, 10) + more_than_used);
    WriteFile(folder_ + (is_v2_ ? "/memory.max" : "/memory.limit_in_bytes"), limit);
    return !used.empty();
  }
  void Freeze(bool freezes) const {
    if (is_v2_) {
      WriteFile(folder_ + "/cgroup.freeze", freezes ? "1" : "0");
    } else {
      WriteFile(folder_ + "/freezer.state", freezes ? "FROZEN" : "THAWED");
    }
  }
  bool is_frozen() const {
    return is_v2_ ? ReadFile(folder_ + "/cgroup.events").find("frozen 1") != std::string::npos
                  : ReadFile(folder_ + "/freezer.state") == "FROZEN\n";
  }

 private:
  const bool is_v2_;
  std::string folder_;
  bool is_made_ = false, has_process_ = false;
};

}  // namespace holdfast::testing

#endif  // HOLDFAST_TESTS_SUPPORT_CONTROL_GROUP_H_
