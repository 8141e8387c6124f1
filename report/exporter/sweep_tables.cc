#include "report/exporter/sweep_tables.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "report/base/time_budget.h"
#include "report/table/table_folder.h"

namespace holdfast {
namespace {

constexpr int64_t kDay = 24 * 3600 * kSecond;
constexpr uint64_t kMostLeftBytes = 16 << 20;

bool OlderThanADay(int64_t wall_ns) { return NowNs(CLOCK_REALTIME) - wall_ns > kDay; }

// Removes a table whose maker died before it had a name (while it is made, its maker has it open for writing), or the lock of an
// exporter that was killed (which, while it lives, holds its flock; nobody takes it while we hold it).
bool RemoveLeftover(const FileDescriptor& folder, const std::string& name) {
  const FileDescriptor file(
      openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  struct stat info;
  if (!file.valid() || fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != geteuid())
    return false;
  if (flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  if (absl::EndsWith(name, ".lock")) {
    struct stat named;  // who takes the lock now finds another file
    if (fstatat(folder.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) != 0 || named.st_ino != info.st_ino)
      return false;
  } else if (SomebodyWrites(file) && !OlderThanADay(info.st_mtim.tv_sec * kSecond)) {
    return false;
  }
  return unlinkat(folder.get(), name.c_str(), 0) == 0;
}

}  // namespace

int SweepOldTables(const std::string& path) {
  const absl::StatusOr<FileDescriptor> tables = OpenFolder(path);
  if (!tables.ok()) return 0;
  int removed = 0;
  for (const std::string& name : ListTableNames(*tables)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(*tables, name);
    // The clock of the day may have jumped ahead: no table is old whose process began less than a day ago.
    if (!table.ok() || !OlderThanADay(table->modified_ns()) ||
        NowNs(CLOCK_MONOTONIC) - table->owner().start_monotonic_ns <= kDay)
      continue;
    if (table->liveness() != Liveness::kDead) continue;
    removed += unlinkat(tables->get(), name.c_str(), 0) == 0;
  }
  for (const char* suffix : {".new", ".lock"}) {
    for (const std::string& name : ListTableNames(*tables, suffix)) {
      // Root's, of another number: a mark (sampler/tables/table_owner.h), of which only its exporter knows whether it is needed.
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
  while (bytes_ > kMostLeftBytes && tables_.size() > 1) {
    unlinkat(folder.get(), tables_.front().first.c_str(), 0);
    bytes_ -= tables_.front().second;
    tables_.pop_front();
  }
}

}  // namespace holdfast
