// How much memory the control group of a process leaves it: the exporter is charged to the group of the program that started
// it, and must not be what tips it over.
//
// Version 1 and 2, every level that is seen; where a level cannot be read (another namespace, no cgroup file system) it does not
// count. What the kernel could take back without harm (file pages that nobody uses) counts as left.
#ifndef HOLDFAST_REPORT_TABLE_MEMORY_ROOM_H_
#define HOLDFAST_REPORT_TABLE_MEMORY_ROOM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

struct MemoryRoom {
  int64_t limit_bytes = 0, used_bytes = 0, left_bytes = 0;
  std::string limit_name;  // "memory.max", "memory.high", "memory.limit_in_bytes"
};

// What a snapshot takes while it is built, besides a few times its table: names and lines of the program's files.
inline constexpr int64_t kSnapshotBytes = 24 << 20;

// The levels of a process's control group, found once: their files can be read often. One thread.
class MemoryLevels {
 public:
  // `process`: "self", "4242".
  explicit MemoryLevels(const std::string& process);

  // Of the level that leaves the least. Nothing where there is no limit.
  std::optional<MemoryRoom> Room() const;
  // The same of limits at which the kernel kills ("memory.max", "memory.limit_in_bytes"), not of those at which it only slows
  // down. What could be taken back is looked up where less than a quarter is left without it.
  std::optional<MemoryRoom> RoomBeforeKill() const;
  // The least of these limits; 0: none.
  int64_t limit_bytes() const;
  // Which group that is: the same text for processes of the same one.
  const std::string& name() const { return name_; }

 private:
  struct Level {
    std::string folder;
    bool unified;
  };
  std::string name_;
  std::vector<Level> levels_;
};

// Of the level that leaves the least. Nothing where there is no limit. `process`: "self", "4242".
std::optional<MemoryRoom> MemoryRoomOf(const std::string& process);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_MEMORY_ROOM_H_
