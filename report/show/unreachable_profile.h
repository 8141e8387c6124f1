// The kind `unreachable`: a profile of blocks to which no pointer leads, as `run --leak-check` writes it.
//
//   sample types   unreachable_objects/count, unreachable_space/bytes
//   samples        one for each stack that allocated such blocks, with function names and without addresses
//   labels         site: "leak_lists ← main"
//
// A file without samples says that a process was checked and has no such blocks.
#ifndef HOLDFAST_REPORT_SHOW_UNREACHABLE_PROFILE_H_
#define HOLDFAST_REPORT_SHOW_UNREACHABLE_PROFILE_H_

#include "absl/status/statusor.h"
#include "report/profile/profile.h"
#include "report/show/unreachable_view.h"

namespace holdfast {

inline constexpr char kUnreachableKind[] = "unreachable";

// The profile of the rows that are certain and not suppressed. The caller sets which process it is of.
Profile UnreachableProfile(const UnreachableReport& report);

// Describes the result in such a profile: "12.1MiB in 6000 blocks".
struct UnreachableRecord {
  std::string program;  // "server (pid 4242)"
  int64_t bytes = 0, blocks = 0;
  struct Site {
    std::string label;
    int64_t bytes = 0, blocks = 0;
  };
  std::vector<Site> sites = {};  // largest first
};
// Reads the newest such profile of each process in files and folders, and searches running processes, which are named by
// their PIDs. NotFound: no process was checked.
absl::StatusOr<std::vector<UnreachableRecord>> ReadUnreachable(const std::vector<std::string>& arguments);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_UNREACHABLE_PROFILE_H_
