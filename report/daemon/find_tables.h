// Finds tables, for the commands that deal with processes: `ls`, `dump`, `set`, `doctor`.
//
// Tables are in /dev/shm, in XDG_RUNTIME_DIR or where --tables puts them. The memory map of each profiled process shows
// the place, so users need not name it. A process in a container has its own /dev/shm, which is reached through
// /proc/PID/root (by root, or by the same user if the kernel permits). Tables of other users are never read with root's
// rights: a child takes on that user's rights and reads them.
#ifndef HOLDFAST_REPORT_DAEMON_FIND_TABLES_H_
#define HOLDFAST_REPORT_DAEMON_FIND_TABLES_H_

#include <sys/types.h>
#include <unistd.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {

struct ProcessTable {
  std::string folder;  // the folder of the table, as a path that we can open
  std::string root;    // "/proc/PID/root" if the process sees other file systems than we do; else ""
  TableFile table;
  std::optional<pid_t> pid;  // in our own pid namespace
  Liveness liveness = Liveness::kUnknown;

  std::string Name() const;  // "redis-server (pid 4242)", printable
  std::string out() const { return root + table.out(); }
};

struct UnreadableTable {
  std::string path;
  absl::Status why;
};

// Returns one line per reason: after an update, many tables may have the older layout.
std::vector<std::string> DescribeUnreadable(const std::vector<UnreadableTable>& tables);

struct FoundTables {
  std::vector<ProcessTable> tables;  // sorted by pid, then by start time
  std::vector<UnreadableTable> unreadable;
};

// Finds all tables of this user in `folders`. If `folders` is empty, searches the default folders and the folders in
// which this user's processes have mapped a table.
FoundTables FindTables(const std::vector<std::string>& folders);

// For root: finds the tables of programs that root started and that run as another user now, by the marks that root
// set. See TableFile::ReadWith for how to read them.
std::vector<ProcessTable> FindTablesOfOthers(const std::vector<std::string>& folders);

// Finds the table of a running process. An error says why there is none (see CheckProcess) and what to do about it. `user`: the owner of
// the table. Root may name another user; see TableFile::ReadWith for how to read the table then.
absl::StatusOr<ProcessTable> FindTableOf(pid_t pid, const std::vector<std::string>& folders, uid_t user = geteuid());

// Notes in the output folder of an attached process that a table in `tables`, a folder of the process, goes there. Without
// the note a table that is reached through /proc/PID/root names only folders below it.
void NoteOutFolder(const std::string& tables, const std::string& out);

// Whether `holdfast detach` has restored its entries: nothing is recorded since. Whether `holdfast attach` began to
// profile it.
bool IsDetached(const TableFile& table);
bool IsAttached(const TableFile& table);

// Returns a message if this profiled process was detached, else "". For root, a child with the rights of the process's
// user reads the table.
std::string DetachedNote(pid_t pid, const std::vector<std::string>& folders);

// Returns an error that says why no process with this id can be examined: there is none, it has exited, is a thread, a
// thread of the kernel, or another user's. A process need not be profiled.
absl::Status CheckProcess(pid_t pid);

// For root: returns the user that the process has become for good, unless that is root.
std::optional<uid_t> OtherUserOf(pid_t pid);

// For root: takes on the rights of the process's user for good. Does nothing for other users, who cannot do it and need
// not.
absl::Status BecomeUserOf(pid_t pid);

// For root: returns the users other than root who have tables in `folders` or processes that have mapped a table.
// Returns nothing for other users.
std::vector<uid_t> OtherUsers(const std::vector<std::string>& folders);

// For root: runs `work` in a child with that user's rights and returns its result, or "" on failure. `pid`: a process
// of that user; 0: no particular process.
std::string AnswerOfUser(uid_t user, pid_t pid, const std::function<std::string()>& work);

// "4242" → 4242. An error has a complete sentence as its message.
absl::StatusOr<pid_t> ParsePid(const std::string& text);

// Returns "running", "stopped", "ended", or "unknown" if we cannot see the process.
std::string ProcessStateOf(const ProcessTable& table);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_DAEMON_FIND_TABLES_H_
