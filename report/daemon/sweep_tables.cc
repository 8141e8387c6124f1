#include "report/daemon/sweep_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "report/base/time_budget.h"
#include "report/base/value_units.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/table_share.h"

namespace holdfast {
namespace {

constexpr int64_t kDay = 24 * 3600 * kSecond;
constexpr uint64_t kMaxLeftBytes = 16 << 20;

std::string PathOf(const FileDescriptor& folder) {
  std::error_code error;
  return std::filesystem::read_symlink(absl::StrCat("/proc/self/fd/", folder.get()), error);
}

bool OlderThanADay(int64_t wall_ns) { return NowNs(CLOCK_REALTIME) - wall_ns > kDay; }

// Removes an unfinished table or a killed exporter's lock. While a table is being made, its maker has it open for
// writing. A live exporter holds its lock's flock, and nobody can take it while we hold it.
bool RemoveLeftover(const FileDescriptor& folder, const std::string& name) {
  const FileDescriptor file(
      openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid())
    return false;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  if (absl::EndsWith(name, ".lock")) {
    struct stat named;  // a process that takes the lock now finds another file
    if (fstatat(folder.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_ino != info.st_ino)
      return false;
  } else if (SomebodyWrites(file) && !OlderThanADay(info.st_mtim.tv_sec * kSecond)) {
    return false;
  }
  return unlinkat(folder.get(), name.c_str(), 0) == 0;
}

struct Waiting {
  std::string name;
  int64_t modified_ns;
  uint64_t bytes;
};

// Returns tables of ended processes that nobody is about to export. An exporter needs some seconds for each table, so
// older ones were left by it.
std::vector<Waiting> WaitingTables(const FileDescriptor& folder, const std::string& path) {
  constexpr int64_t kAtWork = 30 * kSecond;
  std::vector<Waiting> found;
  for (const std::string& name : ListTableNames(folder)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(folder, name);
    if (!table.ok() || table->liveness() != Liveness::kDead) continue;
    const bool is_old = NowNs(CLOCK_REALTIME) - table->modified_ns() > kAtWork;
    if (is_old || !ExporterServes(path.c_str(), table->out().c_str(), table->OutIdHere()))
      found.push_back({name, table->modified_ns(), table->bytes()});
  }
  std::sort(found.begin(), found.end(),
            [](const Waiting& a, const Waiting& b) { return a.modified_ns < b.modified_ns; });
  return found;
}

struct Room {
  uint64_t free = 0, taken = 0;  // by this user's tables
  uint64_t share() const { return ShareOfTables(free + taken); }
};

// Returns nothing for a tmpfs without a size.
std::optional<Room> RoomIn(const FileDescriptor& folder) {
  struct statfs info;
  if (fstatfs(folder.get(), &info) != 0 || info.f_blocks == 0) return std::nullopt;
  Room room{.free = info.f_bavail * static_cast<uint64_t>(info.f_bsize)};
  for (const std::string& name : ListTableNames(folder)) {
    struct stat table;
    if (fstatat(folder.get(), name.c_str(), &table, AT_SYMLINK_NOFOLLOW) == 0)
      room.taken += static_cast<uint64_t>(table.st_blocks) * 512;
  }
  return room;
}

// Removes the oldest waiting tables above the limit, except those in `own`. Returns the size of the remaining others,
// and the limit for all.
std::pair<uint64_t, uint64_t> LimitWaiting(const FileDescriptor& folder, const std::set<std::string>& own) {
  const std::optional<Room> room = RoomIn(folder);
  if (!room.has_value()) return {0, UINT64_MAX};
  const uint64_t most = ShareOfWaitingTables(room->share());
  if (room->taken <= most) return {0, UINT64_MAX};
  std::vector<Waiting> waiting = WaitingTables(folder, PathOf(folder));
  std::erase_if(waiting, [&own](const Waiting& one) { return own.contains(one.name); });
  uint64_t others = 0;
  for (const Waiting& one : waiting) others += one.bytes;
  for (size_t i = 0; i < waiting.size() && others > most; ++i) {
    if (unlinkat(folder.get(), waiting[i].name.c_str(), 0) == 0) others -= waiting[i].bytes;
  }
  return {others, most};
}

}  // namespace

int SweepOldTables(const std::string& path) {
  const absl::StatusOr<FileDescriptor> tables = OpenFolder(path);
  if (!tables.ok()) return 0;
  int removed = 0;
  ShowSmallTables(*tables);
  for (const std::string& name : ListTableNames(*tables)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(*tables, name);
    // The wall clock may have jumped ahead: if its process began less than a day ago, a table is not old.
    if (!table.ok() || !OlderThanADay(table->modified_ns()) ||
        NowNs(CLOCK_MONOTONIC) - table->owner().start_monotonic_ns <= kDay)
      continue;
    if (table->liveness() != Liveness::kDead) continue;
    removed += unlinkat(tables->get(), name.c_str(), 0) == 0;
  }
  LimitWaiting(*tables, {});
  for (const char* suffix : {".new", kSmallSuffix, ".lock"}) {
    for (const std::string& name : ListTableNames(*tables, suffix)) {
      if (suffix == kSmallSuffix && TableFile::Open(*tables, name).ok()) continue;  // of a process that lives
      // Root's file with another number is a mark (sampler/table/table_owner.h); only its exporter knows whether it is
      // needed.
      if (geteuid() == 0 && absl::EndsWith(name, ".lock") &&
          !absl::StartsWith(name, absl::StrCat(kTablePrefix, 0, ".")))
        continue;
      removed += RemoveLeftover(*tables, name);
    }
  }
  return removed;
}

void LeftTables::Add(const FileDescriptor& folder, const std::string& name, uint64_t bytes) {
  tables_.emplace_back(name, bytes);
  bytes_ += bytes;
  std::set<std::string> own;
  for (const auto& [left, its_bytes] : tables_) own.insert(left);
  const auto [others, most] = LimitWaiting(folder, own);
  while ((bytes_ > kMaxLeftBytes || bytes_ + others > most) && tables_.size() > 1) {
    unlinkat(folder.get(), tables_.front().first.c_str(), 0);
    bytes_ -= tables_.front().second;
    tables_.pop_front();
  }
}

std::string WhyNoTable(const std::string& path) {
  const absl::StatusOr<FileDescriptor> folder = OpenFolder(path);
  const std::optional<Room> room = folder.ok() ? RoomIn(*folder) : std::nullopt;
  if (!room.has_value()) return "";
  if (access(path.c_str(), W_OK | X_OK) != 0) {
    return absl::StrCat(path, errno == EROFS ? " is read-only" : " cannot be written",
                        ". Name another folder in memory with --tables");
  }
  if (room->free < kFirstTableBytes)
    return absl::StrCat(path, " is full. Free space there, or name another folder in memory with --tables");
  if (room->taken + kFirstTableBytes <= room->share()) return "";
  const size_t waiting = WaitingTables(*folder, path).size();
  return absl::StrCat(
      "this user's tables use ", FormatSize(static_cast<int64_t>(room->taken)), " in ", path, " of at most ",
      FormatSize(static_cast<int64_t>(room->share())),
      waiting > 0 ? absl::StrCat("; ", waiting, " of them wait for holdfast collect (holdfast ls lists their folders)")
                  : "",
      ". Name another folder in memory with --tables");
}

}  // namespace holdfast
