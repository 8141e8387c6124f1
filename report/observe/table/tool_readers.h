// Recognizes processes that read the tool's output. In a preloaded shell, `holdfast top out | head` would leave a
// profile of head in `out`. Nobody wants that profile, so such a process leaves none.
//
//  the tool       if preloaded itself and printing to a pipe, leaves notes in the folder of tables,
//                   holdfast.<uid>.<pid>.<start-ticks>.process.reader     a process that reads the pipe, or that reads
//                                                                         from such a process …
//                   holdfast.<uid>.<inode>.<process group>.reader         the pipe, and each pipe that a reader writes
//                                                                         to, for later readers; the group is 0 if it
//                                                                         has other programs, too
//  the exporter   skips a process that is noted, reads from a noted pipe, or is in a noted group
//
// A note is written before its reader's last profile, and is valid for an hour, because pids and inodes are reused.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_TOOL_READERS_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_TOOL_READERS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "report/base/file_descriptor.h"
#include "report/observe/table/process_info.h"

namespace holdfast {

// For the tool: notes the readers of its standard output if that is a pipe. Removes outdated notes of this user. Call twice:
// at the start, because a reader may end early, and before the output is written, because a shell may have started the
// tool before its readers.
void NoteReaderOfOutput(const std::string& tables);

// The properties of a process that a note may contain, read while the process runs.
struct ReaderOfPipe {
  pid_t pid = 0;  // 0: the process was not seen
  uint64_t start_ticks = 0;
  uint64_t pipe = 0;  // inode of its standard input; 0: not a pipe, or closed
  pid_t group = 0;
};
// `stat`: of that process.
ReaderOfPipe ReaderOf(pid_t pid, const ProcStat& stat);
bool IsNoted(const FileDescriptor& tables, const ReaderOfPipe& reader);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_TOOL_READERS_H_
