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

namespace holdfast {

struct MemoryRoom {
  int64_t limit_bytes = 0, used_bytes = 0, left_bytes = 0;
  std::string limit_name;  // "memory.max", "memory.high", "memory.limit_in_bytes"
};

// What a snapshot takes while it is built, besides a few times its table: names and lines of the program's files.
inline constexpr int64_t kSnapshotBytes = 24 << 20;

// Of the level that leaves the least. Nothing where there is no limit. `process`: "self", "4242".
std::optional<MemoryRoom> MemoryRoomOf(const std::string& process);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_MEMORY_ROOM_H_
