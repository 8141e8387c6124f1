#include "report/daemon/find_tables.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/holdfast_library.h"
#include "report/base/printable.h"
#include "report/base/time_budget.h"
#include "report/daemon/served_users.h"
#include "report/observe/table/process_files.h"
#include "report/observe/table/process_info.h"
#include "report/observe/table/thread_status.h"
#include "sampler/contract/attach_call.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

// How long to wait for a child that became another user: that user may stop it.
constexpr int64_t kLongestAnswer = 30 * kSecond;

// A folder of tables, and the root through which it is reached.
struct Place {
  std::string folder, root;
  bool operator<(const Place& other) const { return folder < other.folder; }
};

absl::Status BecomeUser(uid_t user, gid_t group) {
  // Groups first: afterwards we may not change them. Real and saved ids too, so that the child cannot become root
  // again.
  if (setgroups(0, nullptr) != 0 || setresgid(group, group, group) != 0 || setresuid(user, user, user) != 0)
    return absl::ErrnoToStatus(errno, "setresuid");
  return absl::OkStatus();
}

gid_t GroupOf(uid_t user) {
  const passwd* entry = getpwuid(user);
  return entry != nullptr ? entry->pw_gid : 65534;
}

// Adds the folders of the tables that this process has mapped. A forked child may also have mapped its parent's table.
void AddPlacesOf(pid_t pid, std::set<Place>* places, uid_t user = geteuid()) {
  std::istringstream maps(ReadOfProcess(pid, "maps"));
  const std::string prefix = fmt::format("/{}{}.", kTablePrefix, user);
  for (std::string line; std::getline(maps, line);) {
    const size_t path_at = line.find('/');
    const size_t name_at = line.rfind(prefix);
    if (path_at == std::string::npos || name_at == std::string::npos || !line.ends_with(kTableSuffix)) continue;
    const std::string folder = line.substr(path_at, name_at - path_at);
    // The fields before the path are the device and the inode. Some file systems (overlayfs, btrfs) show another device
    // here than in stat. Then look into each place with that inode.
    std::istringstream fields(line);
    std::string skipped;
    char colon = 0;
    unsigned major_number = 0, minor_number = 0;
    uint64_t inode = 0;
    fields >> skipped >> skipped >> skipped >> std::hex >> major_number >> colon >> minor_number >> std::dec >> inode;
    std::vector<Place> alike;
    for (const std::string& root : {std::string(), RootOfProcess(pid)}) {
      struct stat info;
      if (lstat((root + line.substr(path_at)).c_str(), &info) != 0 || info.st_ino != inode) continue;
      if (info.st_dev == makedev(major_number, minor_number)) {
        alike = {{root + folder, root}};
        break;
      }
      alike.push_back({root + folder, root});
    }
    places->insert(alike.begin(), alike.end());
  }
}

// Whether the process has mapped its own table, and the file was deleted: by a cleaner of /dev/shm, or at logout (RemoveIPC
// of systemd-logind). The name has the pid as the process sees it.
bool HasDeletedTable(pid_t pid) {
  const std::string own = fmt::format(".{}.", InnerIdOf(ReadOfThread(pid, pid, "status")));
  const std::string prefix = fmt::format("/{}", kTablePrefix), deleted = fmt::format("{} (deleted)", kTableSuffix);
  std::istringstream maps(ReadOfProcess(pid, "maps"));
  for (std::string line; std::getline(maps, line);) {
    const size_t name_at = line.rfind(prefix);
    if (name_at == std::string::npos || !line.ends_with(deleted)) continue;
    const size_t pid_at = line.find('.', name_at + prefix.size());
    if (pid_at != std::string::npos && line.compare(pid_at, own.size(), own) == 0) return true;
  }
  return false;
}

std::vector<pid_t> ProcessesOfThisUser() {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(opendir("/proc"), closedir);
  if (proc == nullptr) return found;
  while (const dirent* entry = readdir(proc.get())) {
    pid_t pid;
    struct stat info;
    if (!absl::SimpleAtoi(entry->d_name, &pid)) continue;
    if (stat(fmt::format("/proc/{}", pid).c_str(), &info) == 0 && info.st_uid == geteuid()) found.push_back(pid);
  }
  return found;
}

// Only a process that can write to the output folder can make the note.
std::string OutNote(const std::string& tables, const std::string& out) {
  const FolderId id = FolderIdOf(tables);
  return fmt::format("{}/.holdfast.tables.{}.{}", out, id.device, id.inode);
}

bool HasOutNote(const std::string& tables, const std::string& out) {
  struct stat info;
  return lstat(OutNote(tables, out).c_str(), &info) == 0 && S_ISREG(info.st_mode) &&
         (info.st_uid == geteuid() || info.st_uid == 0);
}

// Returns the root through which the process's output folder is reached if its path is not valid here. The process may
// share only the folder of tables with us.
std::string RootOf(const TableFile& table, std::optional<pid_t> pid, const Place& place) {
  const std::string& root = place.root;
  // Its profiles may go to a folder of ours. A forged table names any folder, so holdfast attach has left a note there.
  if (table.out_id().known() && FolderIdOf(table.out()) == table.out_id() &&
      (root.empty() || HasOutNote(place.folder, table.out())))
    return "";
  if (!root.empty() || !pid.has_value() || !table.out_id().known()) return root;
  const std::string own = RootOfProcess(*pid);
  return FolderIdOf(own + table.out()) == table.out_id() ? own : root;
}

FoundTables Read(const std::set<Place>& places, uid_t user = geteuid()) {
  FoundTables found;
  std::set<std::string> seen;  // two paths may name the same folder
  for (const Place& place : places) {
    const absl::StatusOr<FileDescriptor> folder = OpenFolder(place.folder);
    if (!folder.ok()) continue;
    for (const std::string& name : ListTableNames(*folder, kTableSuffix, user)) {
      absl::StatusOr<TableFile> table = TableFile::Open(*folder, name, user);
      if (!table.ok()) {
        if (!absl::IsNotFound(table.status())) found.unreadable.push_back({place.folder + "/" + name, table.status()});
        continue;
      }
      if (!seen.insert(table->key()).second) continue;
      const Liveness liveness = table->liveness();
      const std::optional<pid_t> pid =
          liveness == Liveness::kDead ? std::optional<pid_t>() : FindProcess(table->owner());
      const std::string root = RootOf(*table, pid, place);
      found.tables.push_back({place.folder, root, *std::move(table), pid, liveness});
    }
  }
  std::sort(found.tables.begin(), found.tables.end(), [](const ProcessTable& a, const ProcessTable& b) {
    const auto key = [](const ProcessTable& table) {
      return std::pair(table.table.owner().pid, table.table.owner().start_monotonic_ns);
    };
    return key(a) < key(b);
  });
  return found;
}

std::set<Place> PlacesIn(const std::vector<std::string>& folders) {
  std::set<Place> places;
  for (const std::string& folder : folders.empty() ? DefaultTableFolders() : folders) places.insert({folder, ""});
  return places;
}

// Returns the process that a thread belongs to; `pid` itself if that is unknown.
pid_t ProcessOfThread(pid_t pid) {
  constexpr std::string_view kProcess = "\nTgid:\t";
  const std::string status = ReadOfProcess(pid, "status");
  const size_t at = status.find(kProcess);
  const int process = at == std::string::npos ? 0 : atoi(status.c_str() + at + kProcess.size());
  return process > 0 ? process : pid;
}

bool HasLibrary(pid_t pid) { return MapsHoldfastLibrary(ReadOfProcess(pid, "maps")); }

bool HasBit(const TableFile& table, uint32_t bit) {
  uint32_t profiles = 0;
  return pread(table.descriptor(), &profiles, sizeof profiles, offsetof(TableHeader, profiles)) == sizeof profiles &&
         (profiles & bit) != 0;
}

bool IsKernelThread(pid_t pid) {
  constexpr unsigned long kKernelThread = 0x00200000;  // PF_KTHREAD, in the field `flags` of proc(5)'s stat
  const std::string stat = ReadOfProcess(pid, "stat");
  const size_t name_end = stat.rfind(')');
  unsigned long flags = 0;
  return name_end != std::string::npos &&
         sscanf(stat.c_str() + name_end + 1, " %*c %*d %*d %*d %*d %*d %lu", &flags) == 1 &&
         (flags & kKernelThread) != 0;
}

}  // namespace

std::vector<std::string> DescribeUnreadable(const std::vector<UnreadableTable>& tables) {
  std::map<std::string, std::vector<const UnreadableTable*>> by_reason;
  for (const UnreadableTable& table : tables) by_reason[std::string(table.why.message())].push_back(&table);
  std::vector<std::string> lines;
  for (const auto& [reason, alike] : by_reason) {
    const std::string& first = alike[0]->path;
    lines.push_back(alike.size() == 1
                        ? fmt::format("{}: cannot be read ({}). It was left in place.", first, reason)
                        : fmt::format("{} tables cannot be read, one of them {} ({}). They were left in place.",
                                      alike.size(), first, reason));
  }
  return lines;
}

void NoteOutFolder(const std::string& tables, const std::string& out) {
  const FileDescriptor made(open(OutNote(tables, out).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
}

bool IsDetached(const TableFile& table) { return HasBit(table, kDetachedBit); }
bool IsAttached(const TableFile& table) { return HasBit(table, kAttachedBit); }

std::string DetachedNote(pid_t pid, const std::vector<std::string>& folders) {
  const auto note = [&]() -> std::string {
    const absl::StatusOr<ProcessTable> process = FindTableOf(pid, folders);
    if (!process.ok() || !IsDetached(process->table)) return "";
    return fmt::format(
        "{}: was detached, and nothing has been recorded since: values are those of then. To continue: holdfast attach {}",
        process->Name(), pid);
  };
  const std::optional<uid_t> user = OtherUserOf(pid);
  return user.has_value() ? AnswerOfUser(*user, pid, note) : note();
}

absl::Status CheckProcess(pid_t pid) {
  struct stat info;
  if (stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0)
    return absl::NotFoundError(
        fmt::format("process {}: no such process. holdfast ls lists the profiled processes.", pid));
  if (const pid_t process = ProcessOfThread(pid); process != pid)
    return absl::NotFoundError(fmt::format("process {}: is a thread of process {}. Give {}.", pid, process, process));
  if (HasEnded(pid))
    return absl::NotFoundError(fmt::format("process {}: has exited; its parent has not yet collected it.", pid));
  if (IsKernelThread(pid))
    return absl::NotFoundError(
        fmt::format("process {}: is a thread of the kernel. holdfast ls lists the profiled processes.", pid));
  if (info.st_uid != geteuid() && geteuid() != 0) {
    return absl::PermissionDeniedError(fmt::format(
        "process {}: belongs to another user ({}). Run holdfast as that user, or as root.", pid, info.st_uid));
  }
  return absl::OkStatus();
}

std::string ProcessTable::Name() const {
  return Printable(fmt::format("{} (pid {})", table.program(), pid.value_or(static_cast<pid_t>(table.owner().pid))));
}

FoundTables FindTables(const std::vector<std::string>& folders) {
  std::set<Place> places = PlacesIn(folders);
  if (folders.empty()) {
    for (const pid_t pid : ProcessesOfThisUser()) AddPlacesOf(pid, &places);
  }
  return Read(places);
}

std::vector<ProcessTable> FindTablesOfOthers(const std::vector<std::string>& folders) {
  std::vector<ProcessTable> found;
  if (geteuid() != 0) return found;
  for (const std::string& path : folders.empty() ? DefaultTableFolders() : folders) {
    const absl::StatusOr<FileDescriptor> folder = OpenFolder(path);
    if (!folder.ok()) continue;
    for (const uid_t user : OtherUsersOfTables(*folder)) {
      for (ProcessTable& table : Read({{path, ""}}, user).tables) {
        if (HasMark(path, table.table.out(), table.table.OutIdHere(), user)) found.push_back(std::move(table));
      }
    }
  }
  return found;
}

absl::StatusOr<ProcessTable> FindTableOf(pid_t pid, const std::vector<std::string>& folders, uid_t user) {
  struct stat info;
  if (stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0 || HasEnded(pid)) {
    // A table may outlive its process.
    for (const ProcessTable& table : Read(PlacesIn(folders)).tables) {
      if (table.table.owner().pid == static_cast<uint32_t>(pid) && table.liveness == Liveness::kDead) {
        return absl::NotFoundError(fmt::format(
            "process {}: has exited, but its table is still there. To write its profiles: holdfast collect {}  (-o DIR: elsewhere)",
            pid, Printable(table.table.out())));
      }
    }
  }
  if (absl::Status status = CheckProcess(pid); !status.ok()) return status;
  std::set<Place> places = PlacesIn(folders);
  AddPlacesOf(pid, &places, user);
  FoundTables found = Read(places, user);
  ProcessTable* newest = nullptr;
  for (ProcessTable& table : found.tables) {
    if (table.pid == pid && table.liveness != Liveness::kDead) newest = &table;  // exec leaves several; sorted by start
  }
  if (newest != nullptr) return std::move(*newest);
  if (!HasLibrary(pid)) {
#if defined(__x86_64__)
    const std::string start =
        fmt::format("Start profiling it with holdfast attach {}, or restart it with holdfast run", pid);
#else
    const std::string start = "Start it with holdfast run";
#endif
    return absl::NotFoundError(fmt::format(
        "process {}: is not profiled. {}. Without either: holdfast holders {} and holdfast leaks --unreachable {}.",
        pid, start, pid, pid));
  }
  if (HasDeletedTable(pid)) {
    return absl::DataLossError(
        fmt::format("process {}: its table was deleted, so nothing more can be written until it is started again. Keep "
                    "cleaners of /dev/shm from deleting {}*.",
                    pid, kTablePrefix));
  }
  return absl::NotFoundError(fmt::format(
      "process {}: has loaded the library but has no table: nothing has been sampled yet, or nothing can be. See holdfast doctor {}.",
      pid, pid));
}

std::optional<uid_t> OtherUserOf(pid_t pid) {
  struct stat info;
  if (geteuid() != 0 || stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0) return std::nullopt;
  // The owner of the folder in /proc is only the effective user, and root if the process may not be traced.
  const uid_t user = UserOfProcess(pid).value_or(info.st_uid);
  return user != 0 ? std::optional(user) : std::nullopt;
}

absl::Status BecomeUserOf(pid_t pid) {
  struct stat info;
  const std::optional<uid_t> user = OtherUserOf(pid);
  if (!user.has_value() || stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0) return absl::OkStatus();
  if (info.st_uid != *user) {
    info.st_uid = *user;
    info.st_gid = GroupOf(*user);
  }
  KeepReaderAsRoot(info.st_uid);
  if (!BecomeUser(info.st_uid, info.st_gid).ok()) {
    return absl::PermissionDeniedError(
        fmt::format("process {}: cannot switch to its user {} ({}). Run holdfast as that user.", pid, info.st_uid,
                    strerror(errno)));
  }
  return absl::OkStatus();
}

std::vector<uid_t> OtherUsers(const std::vector<std::string>& folders) {
  std::set<uid_t> users;
  if (geteuid() != 0) return {};
  for (const std::string& path : folders.empty() ? DefaultTableFolders() : folders) {
    const absl::StatusOr<FileDescriptor> folder = OpenFolder(path);
    if (!folder.ok()) continue;
    for (const uid_t user : OtherUsersOfTables(*folder)) users.insert(user);
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> proc(folders.empty() ? opendir("/proc") : nullptr, closedir);
  while (const dirent* entry = proc != nullptr ? readdir(proc.get()) : nullptr) {
    pid_t pid;
    struct stat info;
    if (!absl::SimpleAtoi(entry->d_name, &pid) || stat(fmt::format("/proc/{}", pid).c_str(), &info) != 0) continue;
    if (info.st_uid != 0 && !users.contains(info.st_uid) && HasLibrary(pid)) users.insert(info.st_uid);
  }
  return {users.begin(), users.end()};
}

std::string AnswerOfUser(uid_t user, pid_t pid, const std::function<std::string()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return "";
  const FileDescriptor read_end(ends[0]);
  FileDescriptor write_end(ends[1]);
  const pid_t child = fork();
  if (child < 0) return "";
  if (child == 0) {
    if (pid == 0) KeepReaderAsRoot(user);
    const absl::Status became = pid != 0 ? BecomeUserOf(pid) : BecomeUser(user, GroupOf(user));
    if (!became.ok()) _exit(1);
    const std::string answer = work();
    for (size_t at = 0; at < answer.size();) {
      const ssize_t put = write(write_end.get(), answer.data() + at, answer.size() - at);
      if (put <= 0) _exit(1);
      at += static_cast<size_t>(put);
    }
    _exit(0);
  }
  write_end.Close();
  std::string answer;
  bool is_whole = false;
  const int64_t end = NowNs() + kLongestAnswer;
  pollfd entry = {read_end.get(), POLLIN, 0};
  for (int64_t left = kLongestAnswer; !is_whole && left > 0; left = end - NowNs()) {
    if (poll(&entry, 1, static_cast<int>(left / kMs) + 1) <= 0) continue;
    char buffer[16 << 10];
    const ssize_t got = read(read_end.get(), buffer, sizeof buffer);
    if (got < 0 && errno != EINTR) break;
    if (got > 0) answer.append(buffer, static_cast<size_t>(got));
    is_whole = got == 0;
  }
  if (!is_whole) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status == 0 ? answer : "";
}

absl::StatusOr<pid_t> ParsePid(const std::string& text) {
  pid_t pid = 0;
  if (!absl::SimpleAtoi(text, &pid) || pid <= 0) {
    return absl::InvalidArgumentError(
        fmt::format("\"{}\": not a process id. holdfast ls lists them.", Printable(text)));
  }
  return pid;
}

std::string ProcessStateOf(const ProcessTable& table) {
  if (table.liveness == Liveness::kDead) return "ended";
  if (!table.pid.has_value() || table.liveness == Liveness::kUnknown) return "unknown";
  const char state = RunStateOf(*table.pid);
  if (state == 'T' || state == 't') return "stopped";
  return IsDetached(table.table) ? "detached" : "running";
}

}  // namespace holdfast
