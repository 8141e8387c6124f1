// Who reads what the tool prints: in a preloaded shell, `holdfast top out | head` would leave a profile of head in `out`.
// Nobody who looks at a profile asks for that one, so such a process leaves none.
//
//   the tool       was preloaded itself and prints into a pipe: leaves notes in the folder of tables,
//                    holdfast.<uid>.<pid>.<start-ticks>.process.reader     who reads it, and who reads from that one …
//                    holdfast.<uid>.<inode>.<process group>.reader         the pipe, for readers that are still to come;
//                                                                          the group is 0 if it has other programs, too
//   the exporter   leaves out a process that is noted, or that reads from a noted pipe, or is of a noted group
//
// A note is older than its reader's last profile, and holds for an hour: pids and inodes come back.
#ifndef HOLDFAST_REPORT_TABLE_TOOL_READERS_H_
#define HOLDFAST_REPORT_TABLE_TOOL_READERS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "report/base/file_descriptor.h"

namespace holdfast {

// For the tool: notes who reads its standard output, where that is a pipe. Removes older notes of this user.
void NoteReaderOfOutput(const std::string& tables);

// What of a process may be noted, looked at while it lives.
struct ReaderOfPipe {
  pid_t pid = 0;  // 0: it was not seen
  uint64_t start_ticks = 0;
  uint64_t pipe = 0;  // inode of its standard input; 0: none is a pipe, or it was closed
  pid_t group = 0;
};
ReaderOfPipe ReaderOf(pid_t pid);
bool IsNoted(const FileDescriptor& tables, const ReaderOfPipe& reader);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_TOOL_READERS_H_
