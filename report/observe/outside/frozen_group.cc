#include "report/observe/outside/frozen_group.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/split.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {
namespace {

constexpr size_t kMaxGroupText = 1 << 20;

// "37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer"
struct Mount {
  std::string root, place;
  bool is_wanted = false;
};
Mount MountIn(std::string_view line, bool is_v2, std::string_view controller) {
  Mount mount;
  const std::vector<std::string_view> words = Split(line, " ");
  const auto dash = std::find(words.begin(), words.end(), "-");
  if (words.size() < 5 || words.end() - dash < 4) return mount;
  mount.root = words[3];
  mount.place = words[4];
  const std::vector<std::string_view> options = Split(dash[3], ",");
  mount.is_wanted = is_v2
                        ? dash[1] == "cgroup2"
                        : dash[1] == "cgroup" && std::find(options.begin(), options.end(), controller) != options.end();
  return mount;
}

// "/docker/4711" of "6:freezer:/docker/4711"; "": the line has another form.
std::string_view GroupOf(std::string_view line) {
  const size_t first = line.find(':'), second = first == std::string_view::npos ? first : line.find(':', first + 1);
  return second == std::string_view::npos ? "" : line.substr(second + 1);
}

}  // namespace

std::string GroupFolder(std::string_view line, std::string_view mounts, bool is_v2, std::string_view controller) {
  const std::string group(GroupOf(line));
  if (group.empty()) return "";
  const std::string_view controllers = Split(line, ":")[1];
  const auto names = Split(controllers, ",");
  if (is_v2 ? !line.starts_with("0::") : std::find(names.begin(), names.end(), controller) == names.end()) return "";
  for (const std::string_view text : Split(mounts, "\n")) {
    const Mount mount = MountIn(text, is_v2, controller);
    // A container may have mounted only its own part of the hierarchy.
    if (!mount.is_wanted || (mount.root != "/" && !group.starts_with(mount.root))) continue;
    return mount.place + (mount.root == "/" ? group : group.substr(mount.root.size()));
  }
  return "";
}

std::string FrozenGroup::Why() {
  std::string groups = ReadWhole(fmt::format("/proc/{}/cgroup", pid_), kMaxGroupText);
  if (groups != groups_) {
    groups_ = std::move(groups);
    FindStates();
  }
  for (const State& state : states_) {
    // These files tell of the groups above, too.
    const std::string text = ReadWhole(state.file, kMaxGroupText);
    if (state.is_v2 ? text.find("frozen 1") != std::string::npos : text.starts_with("FR"))
      return fmt::format("its control group {} is frozen", state.group);
  }
  // Groups may be hidden from here. Version 2 makes threads wait where they would get a signal.
  const std::string waits = ReadOfThread(pid_, ThreadWithMemory(pid_), "wchan");
  const bool is_frozen = waits == "get_signal" || waits == "do_freezer_trap" || waits == "__refrigerator";
  return is_frozen ? "its control group is frozen" : "";
}

void FrozenGroup::FindStates() {
  states_.clear();
  const std::string mounts = ReadWhole("/proc/self/mountinfo", kMaxGroupText);
  for (const std::string_view line : Split(groups_, "\n")) {
    for (const bool is_v2 : {true, false}) {
      const std::string folder = GroupFolder(line, mounts, is_v2);
      if (!folder.empty())
        states_.push_back({folder + (is_v2 ? "/cgroup.events" : "/freezer.state"), std::string(GroupOf(line)), is_v2});
    }
  }
}

std::string WhyFrozen(pid_t pid) { return FrozenGroup(pid).Why(); }

}  // namespace holdfast
