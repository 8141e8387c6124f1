// Finds the process that a table belongs to, and whether it still runs.
//
// A pid is not enough: pids are reused, exec keeps the pid, and a container numbers its own processes. A process is
// identified by its pid namespace, its pid there, and its start tick; its executable image by where its stack began.
// Reads Linux's /proc only; if /proc hides a process, the answer is kUnknown.
#ifndef HOLDFAST_REPORT_OBSERVE_TABLE_PROCESS_INFO_H_
#define HOLDFAST_REPORT_OBSERVE_TABLE_PROCESS_INFO_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/base/file_descriptor.h"

namespace holdfast {

inline constexpr uid_t kNobody = 65534;  // the user and group without rights
inline constexpr std::string_view kDeletedMark =
    " (deleted)";  // after a path in /proc: the file was replaced or removed
inline std::string_view WithoutDeletedMark(std::string_view path) {
  if (path.ends_with(kDeletedMark)) path.remove_suffix(kDeletedMark.size());
  return path;
}

// The process of a table, as the table describes it.
struct TableOwner {
  uint32_t pid = 0;  // in its own namespace
  uint64_t pid_ns = 0;
  uint64_t start_ticks = 0;
  uint64_t stack_end = 0;  // changes with each exec, unless addresses are not randomized
  int64_t start_monotonic_ns = 0;
  std::string table_name;  // the file's name in the process's memory map

  bool IsOfOurNamespace() const;  // of the pid namespace

  bool SameProcess(const TableOwner& other) const {
    return pid == other.pid && pid_ns == other.pid_ns && start_ticks == other.start_ticks;
  }
};

// The identity in a profile's `process` comment: "host/4026531836/4242/1327410/0123456789abcdef", see
// docs/format.md. Returns nothing if there is no such text, or (OnThisHost) if it is of another host.
std::optional<TableOwner> OwnerOnAnyHost(std::string_view process);
std::optional<TableOwner> OwnerOnThisHost(std::string_view process);

// Returns the user that the process permanently is; 0 as long as it can become root again. Nothing if the process is
// not visible.
std::optional<uid_t> UserOfProcess(const TableOwner& owner);
std::optional<uid_t> UserOfProcess(pid_t pid);
// The same, but also nothing for root. Cheaper: reads one file for a process that is root.
std::optional<uid_t> OtherUserThanRoot(const TableOwner& owner);

enum class Liveness { kAlive, kDead, kUnknown };

// Returns the owner's pid in /proc; nothing if the process is not (or no longer) visible. System calls need another
// number if /proc belongs to another pid namespace than ours: use OpenProcess.
std::optional<pid_t> FindProcess(const TableOwner& owner);

// Returns a pidfd for the owner with the pid `pid` in /proc; invalid if there is none.
FileDescriptor OpenProcess(const TableOwner& owner, pid_t pid);

// Returns whether the process has our CLOCK_MONOTONIC: false in another time namespace, and if the process is not
// visible.
bool SharesOurClock(const TableOwner& owner);

// Returns whether the process that made the table has it mapped, runs as this user, and is one of `ancestors` or a
// descendant of one. The kernel alone decides, whatever the table says. False if this cannot be determined (daemons are
// init's children).
bool IsDescendant(const TableOwner& owner, uid_t user, const std::vector<TableOwner>& ancestors);

// What /proc/PID/stat says, read at once.
struct ProcStat {
  char state = '?';  // as in proc(5): 'R', 'S', 'T', …
  pid_t parent = 0, group = 0;
  uint64_t threads = 0, start_ticks = 0, start_stack = 0;  // ticks since the machine started
};
// Nothing if the process is not visible.
std::optional<ProcStat> ReadProcStat(pid_t pid);

// Returns the start time of a process, in ticks since the machine started; nothing if the process is not visible.
std::optional<uint64_t> StartTicksOf(pid_t pid);
// Returns the parent of a process; 0 if the process is not visible.
pid_t ParentOf(pid_t pid);
// Returns the state of a process as in proc(5): 'R', 'S', 'T', …; '?' if the process is not visible.
char RunStateOf(pid_t pid);
// Returns whether a process has ended and was not yet reaped by its parent. False if the process is not visible.
bool HasEnded(pid_t pid);

// Returns the thread id under which /proc reports the process's memory: its pid, or the id of a remaining thread after
// the main thread ended by pthread_exit.
pid_t ThreadWithMemory(pid_t pid);

// Returns the resident bytes of a process as the kernel counts them, with files and shared memory. Nothing if the
// process is not visible.
std::optional<uint64_t> ResidentBytes(pid_t pid);

// Returns whether the process still runs the image that made the table, according to /proc. See also
// TableFile::liveness.
Liveness LivenessOf(const TableOwner& owner);
// The same from what FindProcess and ReadProcStat returned just now.
Liveness LivenessOf(const TableOwner& owner, std::optional<pid_t> pid, const std::optional<ProcStat>& stat);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_TABLE_PROCESS_INFO_H_
