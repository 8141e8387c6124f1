// Which process a table belongs to, and whether that process is still there.
//
// A pid alone says nothing: pids come back, exec keeps them, and a container counts its own. A process is known by its
// pid namespace, its pid in there, and the tick at which it started; its image by where its stack began.
// Linux /proc only; where /proc hides a process, the answer is kUnknown.
#ifndef HOLDFAST_REPORT_TABLE_PROCESS_INFO_H_
#define HOLDFAST_REPORT_TABLE_PROCESS_INFO_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/base/file_descriptor.h"

namespace holdfast {

inline constexpr uid_t kNobody = 65534;  // the user, and group, without rights
inline constexpr std::string_view kDeletedMark =
    " (deleted)";  // behind a path in /proc: the file was replaced or removed
inline std::string_view WithoutDeletedMark(std::string_view path) {
  if (path.ends_with(kDeletedMark)) path.remove_suffix(kDeletedMark.size());
  return path;
}

// What a table says of its process.
struct TableOwner {
  uint32_t pid = 0;  // in its own namespace
  uint64_t pid_ns = 0;
  uint64_t start_ticks = 0;
  uint64_t stack_end = 0;  // changes with each exec, unless addresses are not randomised
  int64_t start_monotonic_ns = 0;
  std::string table_name;  // of the file, as it stands in the process's memory map

  bool IsOfOurNamespace() const;  // of processes

  bool SameProcess(const TableOwner& other) const {
    return pid == other.pid && pid_ns == other.pid_ns && start_ticks == other.start_ticks;
  }
};

// What a profile's `process` comment says of its process: "host/4026531836/4242/1327410/0123456789abcdef", see
// docs/format.md. Nothing: of another host, or no such text.
std::optional<TableOwner> OwnerOnThisHost(std::string_view process);

// The user that the process is now, for good: 0 as long as it can become root again. Nothing when it is not seen.
std::optional<uid_t> UserOfProcess(const TableOwner& owner);
std::optional<uid_t> UserOfProcess(pid_t pid);

enum class Liveness { kAlive, kDead, kUnknown };

// The owner's pid as /proc shows it; nothing when it is not (or no longer) among the processes that we see. System calls
// take another number where /proc is of another pid namespace than ours: OpenProcess.
std::optional<pid_t> FindProcess(const TableOwner& owner);

// A pidfd of the owner that /proc shows as `pid`; not valid if there is none.
FileDescriptor OpenProcess(const TableOwner& owner, pid_t pid);

// Whether its CLOCK_MONOTONIC is ours: false in another time namespace, and where the process is not seen.
bool SharesOurClock(const TableOwner& owner);

// Whether the process that made the table has it mapped, is this user, and was started by one of `ancestors` or is one: told
// by the kernel alone, whatever the table says. False where that is not to be seen (daemons are init's children).
bool IsDescendant(const TableOwner& owner, uid_t user, const std::vector<TableOwner>& ancestors);

// When a process was started, in ticks since the machine was; nothing when it is not seen.
std::optional<uint64_t> StartTicksOf(pid_t pid);

// When a process was started and its process group, by the numbers of /proc. Zeros if the process is not seen.
struct StartAndGroup {
  uint64_t start_ticks = 0;
  pid_t group = 0;
};
StartAndGroup StartAndGroupOf(pid_t pid);
// The parent of a process. Returns 0 if the process is not seen.
pid_t ParentOf(pid_t pid);
// The state of a process as in proc(5): 'R', 'S', 'T', …; '?' if the process is not seen.
char RunStateOf(pid_t pid);
// Whether a process has ended and waits for its parent to look. False if the process is not seen.
bool HasEnded(pid_t pid);

// Where /proc says what memory a process has: its own id; once its main thread has ended by pthread_exit, that of a thread which
// goes on.
pid_t ThreadWithMemory(pid_t pid);

// What of its memory is resident, in bytes, as the kernel counts it: files and shared memory included. Nothing when it is not seen.
std::optional<uint64_t> ResidentBytes(pid_t pid);

// Whether the process runs, still as the image that made the table, by what /proc says. See also TableFile::liveness.
Liveness LivenessOf(const TableOwner& owner);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_TABLE_PROCESS_INFO_H_
