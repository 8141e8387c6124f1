// How much of the memory where tables lie this user's tables may take, all together. (table_file.cc)
#ifndef HOLDFAST_SAMPLER_TABLES_TABLE_ROOM_H_
#define HOLDFAST_SAMPLER_TABLES_TABLE_ROOM_H_

#include <cstdint>

namespace holdfast {

// Whether the tables of this user may take `bytes` more: together they take at most a quarter of the free space where
// they lie (Docker's /dev/shm is 64 MiB, and the program needs it too). kScarce: yes, but ask again for whatever comes next.
// Any thread; opens the folder for a moment. Five system calls and one more for each table.
enum class Room { kNone, kScarce, kPlenty };
Room RoomForTables(uint64_t bytes);

// The tables that RoomForTables counts are this user's from now on.
void TablesAreOf(uint32_t uid);

}  // namespace holdfast

#endif  // HOLDFAST_SAMPLER_TABLES_TABLE_ROOM_H_
