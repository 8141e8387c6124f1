// `--on-snapshot CMD`: runs a command for each file that the exporter writes, with the file's path as its last
// argument.
//
// Only the process that starts the exporter can set the command: in the exporter's own environment, never through a
// table or by a served program. So the command has no more rights than the program for which the exporter was started.
// It is not run for files of another user's programs (root's exporter).
// Bounded: one command at a time; at most kMaxWaiting files wait, and the log reports that others were skipped. A
// command is killed after kMaxTime with all processes in its session. Nobody waits for it, least of all the program's
// end. Files that wait when the last table is gone are processed within kMaxTimeAtEnd, or skipped.
// Runs `/bin/sh -c 'CMD "$@"' sh FILE` in its own session, with standard input from /dev/null, in the output folder.
// Output goes to OUT/.on-snapshot.log, up to 64 KiB; the log also reports, once, that the command failed.
#ifndef HOLDFAST_REPORT_DAEMON_SNAPSHOT_COMMAND_H_
#define HOLDFAST_REPORT_DAEMON_SNAPSHOT_COMMAND_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>

#include "report/base/file_descriptor.h"
#include "report/base/time_budget.h"

namespace holdfast {

class SnapshotCommand {
 public:
  static constexpr size_t kMaxWaiting = 64;
  static constexpr int64_t kMaxTime = 60 * kSecond, kMaxTimeAtEnd = 30 * kSecond;

  // `command`: "" does nothing. `out`: the output folder, absolute.
  SnapshotCommand(std::string command, std::string out) : command_(std::move(command)), out_(std::move(out)) {}
  ~SnapshotCommand();  // ends a running command

  // Adds a complete file in the folder.
  void Add(const std::string& file);
  // Starts the next command, and ends one that runs too long.
  void Poll(int64_t now_ns);
  // Processes waiting files for up to kMaxTimeAtEnd.
  void Finish();

 private:
  void Start(int64_t now_ns);
  void EndAll();
  void Ended(int status, bool too_long);
  void Append(std::string_view text, off_t most) const;  // to the log, up to `most` bytes in total
  void Note(const std::string& line) const;
  void TakeOutput() const;

  const std::string command_, out_;
  std::deque<std::string> waiting_;
  bool said_failure_ = false, said_left_out_ = false;
  pid_t pid_ = 0;
  FileDescriptor output_;  // the command's output, through a pipe
  int64_t started_ns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_SNAPSHOT_COMMAND_H_
