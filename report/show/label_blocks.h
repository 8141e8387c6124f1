// Labels for the blocks of a heap profile: what holds them, and their dynamic class (`dump --holders`).
//
//   held    session_map (server)     the holder with the shortest path to the block; [no pointer found]
//   class   Session::Entry           for objects that begin with a vtable, also in stripped programs
#ifndef HOLDFAST_REPORT_SHOW_LABEL_BLOCKS_H_
#define HOLDFAST_REPORT_SHOW_LABEL_BLOCKS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "report/observe/process_state.h"
#include "report/profile/profile.h"

namespace holdfast {

// Scans the process, sets ProcessState::labelled_blocks, and makes a profile of what its holders retain
// (report/show/holders_profile.h), unless `holders` is null. An error says why the memory cannot be read.
absl::Status LabelBlocks(pid_t pid, const std::vector<std::string>& tables, ProcessState* state, Profile* holders);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_LABEL_BLOCKS_H_
