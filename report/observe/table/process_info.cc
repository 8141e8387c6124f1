#include "report/observe/table/process_info.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "report/base/file_descriptor.h"
#include "report/base/kernel_page.h"
#include "report/base/proc_file.h"
#include "report/observe/table/process_files.h"

namespace holdfast {
namespace {

constexpr uint64_t kInitialPidNamespace = 0xEFFFFFFC;  // PROC_PID_INIT_INO, a constant in the kernel

std::string ReadProc(pid_t pid, absl::string_view name) { return ReadProcFile(absl::StrCat("/proc/", pid, "/", name)); }

uint64_t PidNamespaceOf(absl::string_view process) {
  struct stat info;
  return stat(absl::StrCat("/proc/", process, "/ns/pid").c_str(), &info) == 0 ? info.st_ino : 0;
}

// Excludes dead processes. A zombie may exist until its parent reaps it. A process with an ended main thread looks like
// a zombie, but has threads left.
bool Runs(const ProcStat& stat) { return stat.state != 'X' && (stat.state != 'Z' || stat.threads > 1); }

// "NSpid:\t4242\t17\t1": the pid in each namespace, starting with ours.
bool HasInnerPid(pid_t pid, uint32_t inner) {
  const std::string status = ReadProc(pid, "status");
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "NSpid:")) continue;
    const std::vector<absl::string_view> pids = absl::StrSplit(line, '\t', absl::SkipEmpty());
    return !pids.empty() && pids.back() == absl::StrCat(inner);
  }
  return false;
}

// Searches for the table's name, which contains a random number. Takes about 100 µs and blocks the process's mmap
// meanwhile.
bool Maps(pid_t pid, const std::string& table_name, bool if_hidden) {
  const std::string maps = ReadOfProcess(pid, "maps");
  if (maps.empty()) return if_hidden;  // we may not read it
  return maps.find("/" + table_name) != std::string::npos;
}

// This process's namespaces, as /proc shows them.
struct OwnNamespace {
  bool is_known = false;
  uint64_t number = 0;
  ino_t time_namespace = 0;  // 0: the kernel has none
  // Whether /proc numbers processes as our namespace does. It does not after `unshare --pid` without a new /proc.
  bool has_proc = false;
};

thread_local OwnNamespace own_namespace;

// Looked up once in each process: an exporter asks about ten times for each process that it serves.
const OwnNamespace& Own() {
  // A forked child may be in another namespace.
  [[maybe_unused]] static const int forgets = pthread_atfork(nullptr, nullptr, [] { own_namespace = {}; });
  OwnNamespace& own = own_namespace;
  if (!own.is_known) {
    char text[24] = {};
    pid_t shown = 0;
    const bool is_shown = readlink("/proc/self", text, sizeof text - 1) > 0 && absl::SimpleAtoi(text, &shown);
    struct stat time = {};
    own.number = PidNamespaceOf("self");
    own.time_namespace = stat("/proc/self/ns/time", &time) == 0 ? time.st_ino : 0;
    own.has_proc = is_shown && shown == getpid();
    own.is_known = own.number != 0;  // no /proc: look again
  }
  return own;
}

// Caches the processes found last in other namespaces. Where thousands of processes run, searching /proc several times
// for each snapshot would dominate the cost. Only a hint: each entry is verified.
struct FoundElsewhere {
  uint64_t pid_ns = 0;
  uint32_t inner = 0;
  pid_t pid = 0;
};
thread_local FoundElsewhere found_elsewhere[64];

FoundElsewhere& FoundPlaceOf(const TableOwner& owner) { return found_elsewhere[(owner.pid_ns + owner.pid) % 64]; }

bool IsIt(pid_t pid, const TableOwner& owner) {
  return PidNamespaceOf(absl::StrCat(pid)) == owner.pid_ns && HasInnerPid(pid, owner.pid);
}

}  // namespace

bool TableOwner::IsOfOurNamespace() const { return pid_ns == 0 || Own().number == pid_ns; }

std::optional<TableOwner> OwnerOnAnyHost(std::string_view process) {
  const std::vector<std::string> parts = absl::StrSplit(std::string(process), '/');
  TableOwner owner;
  if (parts.size() != 5 || !absl::SimpleAtoi(parts[1], &owner.pid_ns) || !absl::SimpleAtoi(parts[2], &owner.pid) ||
      !absl::SimpleAtoi(parts[3], &owner.start_ticks)) {
    return std::nullopt;
  }
  return owner;
}

std::optional<TableOwner> OwnerOnThisHost(std::string_view process) {
  char host[256] = {};
  if (gethostname(host, sizeof host - 1) != 0 || process.substr(0, process.find('/')) != host) return std::nullopt;
  return OwnerOnAnyHost(process);
}

std::optional<pid_t> FindProcess(const TableOwner& owner) {
  if (owner.IsOfOurNamespace() && Own().has_proc) return static_cast<pid_t>(owner.pid);
  FoundElsewhere& last = FoundPlaceOf(owner);
  if (last.pid_ns == owner.pid_ns && last.inner == owner.pid && IsIt(last.pid, owner)) return last.pid;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (proc == nullptr) return std::nullopt;
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || !IsIt(pid, owner)) continue;
    last = {owner.pid_ns, owner.pid, pid};
    return pid;
  }
  // A process that was saved and restored (CRIU) is in a new namespace, and is recognized by its mapped table. A forked
  // child may have mapped it too, but has another pid.
  rewinddir(proc.get());
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid;
    if (absl::SimpleAtoi(entry->d_name, &pid) && HasInnerPid(pid, owner.pid) && Maps(pid, owner.table_name, false))
      return pid;
  }
  return std::nullopt;
}

FileDescriptor OpenProcess(const TableOwner& owner, pid_t pid) {
  const pid_t own_number = owner.IsOfOurNamespace() ? static_cast<pid_t>(owner.pid) : pid;
  return FileDescriptor(static_cast<int>(syscall(SYS_pidfd_open, own_number, 0)));
}

bool SharesOurClock(const TableOwner& owner) {
  const ino_t ours = Own().time_namespace;
  if (ours == 0) return true;
  const std::optional<pid_t> pid = FindProcess(owner);
  struct stat its;
  return pid.has_value() && stat(absl::StrCat("/proc/", *pid, "/ns/time").c_str(), &its) == 0 && its.st_ino == ours;
}

std::optional<ProcStat> ReadProcStat(pid_t pid) {
  const std::string text = ReadProc(pid, "stat");
  const size_t name_end = text.rfind(')');  // the name may contain any character
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  // fields[0] is field 3 of proc(5). Read for each process that is served, so without a vector.
  std::array<absl::string_view, 26> fields;
  size_t known = 0;
  for (const absl::string_view field : absl::StrSplit(absl::string_view(text).substr(name_end + 2), ' ')) {
    if (known == fields.size()) break;
    fields[known++] = field;
  }
  ProcStat stat;
  if (known < fields.size() || fields[0].empty() || !absl::SimpleAtoi(fields[1], &stat.parent) ||
      !absl::SimpleAtoi(fields[2], &stat.group) || !absl::SimpleAtoi(fields[17], &stat.threads) ||
      !absl::SimpleAtoi(fields[19], &stat.start_ticks) || !absl::SimpleAtoi(fields[25], &stat.start_stack)) {
    return std::nullopt;
  }
  stat.state = fields[0][0];
  return stat;
}

std::optional<uid_t> UserOfProcess(const TableOwner& owner) {
  const std::optional<pid_t> pid = FindProcess(owner);
  const std::optional<uid_t> user = pid.has_value() ? UserOfProcess(*pid) : std::nullopt;
  if (!user.has_value()) return std::nullopt;
  // Read last: if the owner has the pid now, it also had it when the user was read.
  const std::optional<ProcStat> stat = ReadProcStat(*pid);
  if (!stat.has_value() || (owner.start_ticks != 0 && stat->start_ticks != owner.start_ticks)) return std::nullopt;
  return user;
}

std::optional<uid_t> OtherUserThanRoot(const TableOwner& owner) {
  const std::optional<pid_t> pid = FindProcess(owner);
  // If even a later process with this pid is root, it does not matter which one it is.
  if (!pid.has_value() || UserOfProcess(*pid).value_or(0) == 0) return std::nullopt;
  const std::optional<uid_t> user = UserOfProcess(owner);
  return user != 0 ? user : std::nullopt;
}

std::optional<uid_t> UserOfProcess(pid_t pid) {
  // "Uid:\t0\t33\t33\t33": real, effective, saved and file-system user.
  const std::string status = ReadProc(pid, "status");
  for (absl::string_view line : absl::StrSplit(status, '\n')) {
    if (!absl::ConsumePrefix(&line, "Uid:")) continue;
    uid_t user = 0;
    for (const absl::string_view id : absl::StrSplit(line, '\t', absl::SkipEmpty())) {
      // A process that can become root again counts as root.
      if (!absl::SimpleAtoi(id, &user) || user == 0) return 0;
    }
    return user;
  }
  return std::nullopt;
}

std::optional<uint64_t> StartTicksOf(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat.has_value() ? std::optional(stat->start_ticks) : std::nullopt;
}

pid_t ParentOf(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat.has_value() ? stat->parent : 0;
}

char RunStateOf(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat.has_value() ? stat->state : '?';
}

bool HasEnded(pid_t pid) {
  const std::optional<ProcStat> stat = ReadProcStat(pid);
  return stat.has_value() && !Runs(*stat);
}

pid_t ThreadWithMemory(pid_t pid) {
  const auto has_memory = [](pid_t thread) { return !ReadProc(thread, "statm").starts_with("0 "); };
  if (has_memory(pid)) return pid;
  const std::unique_ptr<DIR, int (*)(DIR*)> tasks(opendir(absl::StrCat("/proc/", pid, "/task").c_str()), closedir);
  while (const dirent* entry = tasks != nullptr ? readdir(tasks.get()) : nullptr) {
    pid_t thread;
    if (absl::SimpleAtoi(entry->d_name, &thread) && thread != pid && has_memory(thread)) return thread;
  }
  return pid;
}

std::optional<uint64_t> ResidentBytes(pid_t pid) {
  std::string text = ReadProc(pid, "statm");
  if (text.starts_with("0 ")) text = ReadProc(ThreadWithMemory(pid), "statm");
  const std::vector<std::string> pages = absl::StrSplit(text, ' ');  // total, resident, …
  uint64_t resident = 0;
  if (pages.size() < 2 || !absl::SimpleAtoi(pages[1], &resident) || resident == 0) return std::nullopt;
  return resident * KernelPageBytes();
}

bool IsDescendant(const TableOwner& owner, uid_t user, const std::vector<TableOwner>& ancestors) {
  constexpr int kMaxAncestors = 64;
  const uint64_t space = PidNamespaceOf("self");
  if (space != owner.pid_ns) return false;
  if (!Own().has_proc) return false;
  auto pid = static_cast<pid_t>(owner.pid);
  const std::string maps = ReadWhole(absl::StrCat("/proc/", pid, "/maps"));
  if (maps.find("/" + owner.table_name) == std::string::npos || UserOfProcess(pid) != user) return false;
  for (int i = 0; i < kMaxAncestors && pid > 0; ++i) {
    for (const TableOwner& ancestor : ancestors) {
      if (static_cast<uint32_t>(pid) == ancestor.pid && (ancestor.pid_ns == 0 || ancestor.pid_ns == space)) return true;
    }
    const std::optional<ProcStat> stat = ReadProcStat(pid);
    pid = stat.has_value() ? stat->parent : 0;
  }
  return false;
}

Liveness LivenessOf(const TableOwner& owner) {
  const std::optional<pid_t> pid = FindProcess(owner);
  return LivenessOf(owner, pid, pid.has_value() ? ReadProcStat(*pid) : std::nullopt);
}

Liveness LivenessOf(const TableOwner& owner, std::optional<pid_t> pid, const std::optional<ProcStat>& stat) {
  if (!pid.has_value()) return PidNamespaceOf("self") == kInitialPidNamespace ? Liveness::kDead : Liveness::kUnknown;
  if (!stat.has_value()) return access("/proc/self/stat", R_OK) == 0 ? Liveness::kDead : Liveness::kUnknown;
  if (!Runs(*stat)) return Liveness::kDead;
  // A different start tick means that the pid was reused, unless the process has mapped the table. In another time
  // namespace, or after save and restore, the start tick differs from the one that the process itself saw.
  if (owner.start_ticks != 0 && stat->start_ticks != owner.start_ticks && !Maps(*pid, owner.table_name, false)) {
    return Liveness::kDead;
  }
  // These also differ in a program started through ld.so. /proc reports 0 or 1 if we may not read the value.
  if (stat->start_stack > 1 && owner.stack_end != 0 && stat->start_stack != owner.stack_end &&
      !Maps(*pid, owner.table_name, true)) {
    return Liveness::kDead;
  }
  return Liveness::kAlive;
}

}  // namespace holdfast
