// Finding tables for the commands that deal with processes: `ls`, `dump`, `set`, `doctor`.
//
// Tables lie in /dev/shm, in XDG_RUNTIME_DIR, or where --tables put them: that place stands in the memory map of every
// process that has one, so nobody has to name it. A process in a container has a /dev/shm of its own, reached through
// /proc/PID/root (by root, or where the kernel lets its user). Tables of other users are never read with root's rights: a
// child that becomes their user does it.
#ifndef HOLDFAST_REPORT_PROCESSES_FIND_TABLES_H_
#define HOLDFAST_REPORT_PROCESSES_FIND_TABLES_H_

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/table/table_folder.h"

namespace holdfast {

struct ProcessTable {
  std::string folder;  // of the table, as we reach it
  std::string root;    // "/proc/PID/root" where the process has other file systems than we have; else ""
  TableFile table;
  std::optional<pid_t> pid;  // as we see it
  Liveness liveness = Liveness::kUnknown;

  std::string Name() const;  // "redis-server (pid 4242)", printable
  std::string out() const { return root + table.out(); }
};

struct UnreadableTable {
  std::string path;
  absl::Status why;
};

// One line for each reason: an update leaves behind as many tables of the older layout as there were processes.
std::vector<std::string> DescribeUnreadable(const std::vector<UnreadableTable>& tables);

struct FoundTables {
  std::vector<ProcessTable> tables;  // by pid, then by start
  std::vector<UnreadableTable> unreadable;
};

// Every table of this user in `folders`; if none is named, in the default folders and where this user's processes have
// one mapped.
FoundTables FindTables(const std::vector<std::string>& folders);

// As root: finds the tables of root's programs that are other users now, by the marks that root left. See TableFile::ReadWith for how to
// read them.
std::vector<ProcessTable> FindTablesOfOthers(const std::vector<std::string>& folders);

// The table of a running process. The message of an error says why there is none, and what to do about it.
// `user`: the owner of the table. Root may name another user; see TableFile::ReadWith for how to read the table then.
absl::StatusOr<ProcessTable> FindTableOf(pid_t pid, const std::vector<std::string>& folders, uid_t user = geteuid());

// As root: returns the user that a process runs as for good, unless that is root.
std::optional<uid_t> OtherUserOf(pid_t pid);

// As root: takes on the rights of the user whose process this is, for good. Nobody else can, and needs to.
absl::Status BecomeUserOf(pid_t pid);

// As root: the users other than root that have tables in `folders`, or processes with one mapped. Nothing for others.
std::vector<uid_t> OtherUsers(const std::vector<std::string>& folders);

// As root: what `work` says with the rights of that user, in a child. "": it could not be done. `pid`: a process of that
// user; 0: none is meant.
std::string AnswerOfUser(uid_t user, pid_t pid, const std::function<std::string()>& work);

// "4242" → 4242; the message of an error is a whole sentence about it.
absl::StatusOr<pid_t> ParsePid(const std::string& text);

// "running", "stopped", "ended", "unknown" (a process that we cannot see).
std::string ProcessStateOf(const ProcessTable& table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_FIND_TABLES_H_
