// How much memory this user's tables may take, all together. (table_file.cc)
#ifndef HOLDFAST_SAMPLER_TABLE_TABLE_ROOM_H_
#define HOLDFAST_SAMPLER_TABLE_TABLE_ROOM_H_

#include <cstdint>

namespace holdfast {

// Whether the tables of this user may take `bytes` more: together they may take a quarter of the free space of their
// file system (Docker's /dev/shm has 64 MiB, and the program needs it too). kScarce: yes, but ask again before the next
// growth. Any thread; opens the folder for a moment. Five system calls and one more for each table.
enum class Room { kNone, kScarce, kPlenty };
Room RoomForTables(uint64_t bytes);

// RoomForTables counts the tables of `uid` from now on.
void TablesAreOf(uint32_t uid);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLE_TABLE_ROOM_H_
