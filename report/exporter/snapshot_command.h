// `--on-snapshot CMD`: a command that is run for each file that the exporter writes, with the file's path as its last argument.
//
// Who may say it: who starts the exporter. It comes with the exporter's own environment and never from a table or from a program that
// is served, so it has no more rights than the program for which the exporter was started. Files of another user's
// programs (root's exporter) get none.
// Bounded: one at a time, kMostWaiting files wait (more are left out, and that is said), each is killed after kMostTime with all
// that is in its session. Nobody waits for it: the program's end least of all. What still waits when the last table is gone is
// done within kMostTimeAtEnd, or left.
// It runs as `/bin/sh -c 'CMD "$@"' sh FILE`: in a session of its own, with standard input from /dev/null, in the output
// folder. What it prints goes to OUT/.on-snapshot.log, up to 64 KiB; there it is also said, once, that it failed.
#ifndef HOLDFAST_REPORT_EXPORTER_SNAPSHOT_COMMAND_H_
#define HOLDFAST_REPORT_EXPORTER_SNAPSHOT_COMMAND_H_

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
  static constexpr size_t kMostWaiting = 64;
  static constexpr int64_t kMostTime = 60 * kSecond, kMostTimeAtEnd = 30 * kSecond;

  // `command`: "" does nothing. `out`: the output folder, absolute.
  SnapshotCommand(std::string command, std::string out) : command_(std::move(command)), out_(std::move(out)) {}
  ~SnapshotCommand();  // ends what runs

  // A file of the folder that is whole.
  void Add(const std::string& file);
  // Starts what waits, ends what runs for too long.
  void Tend(int64_t now_ns);
  // What still waits, for kMostTimeAtEnd.
  void Finish();

 private:
  void Start(int64_t now_ns);
  void EndAll();
  void Ended(int status, bool too_long);
  void Append(std::string_view text, off_t most) const;  // to the log, as long as it is not longer than that
  void Note(const std::string& line) const;
  void TakeOutput() const;

  const std::string command_, out_;
  std::deque<std::string> waiting_;
  bool said_failure_ = false, said_left_out_ = false;
  pid_t pid_ = 0;
  FileDescriptor output_;  // what it prints, through a pipe
  int64_t started_ns_ = 0;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORTER_SNAPSHOT_COMMAND_H_
