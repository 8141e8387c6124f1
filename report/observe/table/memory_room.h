// Returns how much memory a process's control group has left. The exporter is charged to the group of the program that
// started it, and must not push the group over its limit.
//
// Handles cgroup versions 1 and 2 and every visible level; an unreadable level (another namespace, no cgroup file
// system) is ignored. Memory that the kernel can reclaim without harm (unused file pages) counts as left.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_MEMORY_ROOM_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_MEMORY_ROOM_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

struct MemoryRoom {
  int64_t limit_bytes = 0, used_bytes = 0, left_bytes = 0;
  std::string limit_name;  // "memory.max", "memory.high" or "memory.limit_in_bytes"
};

// Memory for building a snapshot, in addition to a few times the size of its table: names and lines of the program's
// files.
inline constexpr int64_t kSnapshotBytes = 24 << 20;

// The levels of a process's control group. They are found once, so that their files can be read often. One thread.
class MemoryLevels {
 public:
  // `process`: "self" or a pid such as "4242".
  explicit MemoryLevels(const std::string& process);

  // Returns the level with the least memory left. Nothing if there is no limit.
  std::optional<MemoryRoom> Room() const;
  // The same, but only for limits at which the kernel kills ("memory.max", "memory.limit_in_bytes"), not for those at
  // which it only slows the group down. Reads how much is reclaimable only if less than a quarter is left otherwise.
  std::optional<MemoryRoom> RoomBeforeKill() const;
  // The lowest of these limits; 0: none.
  int64_t limit_bytes() const;
  // Identifies the group: processes in the same group have the same name.
  const std::string& name() const { return name_; }

 private:
  struct Level {
    std::string folder;
    bool unified;
  };
  std::string name_;
  std::vector<Level> levels_;
};

// Returns the level with the least memory left. Nothing if there is no limit. `process`: "self" or a pid such as
// "4242".
std::optional<MemoryRoom> MemoryRoomOf(const std::string& process);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_MEMORY_ROOM_H_
