// Compares the newest file of a running process with its table: whether the file still shows what is in use.
//
//     file      12:00  heap  alloc 4,096 objects …
//     table     12:10        alloc 4,096 objects …      ► held for 10 min
#ifndef HOLDFAST_REPORT_DAEMON_HELD_IN_TABLE_H_
#define HOLDFAST_REPORT_DAEMON_HELD_IN_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "report/daemon/find_tables.h"
#include "report/profile/profile.h"

namespace holdfast {

// What a cumulative heap, map or threads profile says of the state of its process.
struct WrittenState {
  int kind = -1;  // index into kFileKinds; -1: no such profile
  std::string process;
  int64_t elapsed_ns = 0;
  std::vector<int64_t> totals;
  uint64_t lost = 0;     // samples
  size_t times_off = 0;  // times without samples
  bool is_off = false;   // no samples now
};
WrittenState WrittenStateOf(const Profile& profile);

// Returns nanoseconds. 0: something has changed; the process has ended or is detached; its table cannot be read; or
// since the file samples were switched off or lost. Takes as long as a snapshot.
int64_t HeldInTableNs(const ProcessTable& process, const WrittenState& newest);
// The same for the process of this file, if this user can read its table. The tool passes it to SetHeldFor.
int64_t HeldInItsTableNs(const Profile& newest);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_HELD_IN_TABLE_H_
