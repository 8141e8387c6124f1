// The profiles of a running process, for commands that take a PID instead of a file.
#ifndef HOLDFAST_REPORT_CMD_FILES_OF_PROCESS_H_
#define HOLDFAST_REPORT_CMD_FILES_OF_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast {

// Runs `holdfast dump PID` in a process of its own, which under root becomes the user of the profiled process. Then
// returns the paths of all profiles of the process in its output folder. Takes one snapshot per PID and command, even
// if called again.
absl::StatusOr<std::vector<std::string>> SnapshotAndFilesOf(pid_t pid);

// Snapshots that SnapshotAndFilesOf takes have labels for the holders and classes of blocks: dump --holders.
void LabelBlocksInSnapshots();

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_FILES_OF_PROCESS_H_
