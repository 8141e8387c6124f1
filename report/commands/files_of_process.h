// The profiles of a running process, for commands that are given a PID where they take a file.
#ifndef HOLDFAST_REPORT_COMMANDS_FILES_OF_PROCESS_H_
#define HOLDFAST_REPORT_COMMANDS_FILES_OF_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace holdfast {

// Has `holdfast dump PID` write a snapshot, in a process of its own: as root that one becomes the user of the process. Then
// names all profiles of the process in that folder. One snapshot for each PID and command.
absl::StatusOr<std::vector<std::string>> SnapshotAndFilesOf(pid_t pid);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_FILES_OF_PROCESS_H_
