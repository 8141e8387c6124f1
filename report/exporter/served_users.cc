#include "report/exporter/served_users.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "report/table/table_folder.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

// Everybody may put files there: these many of one folder are enough.
constexpr size_t kMostUsers = 64;

}  // namespace

bool HasMark(const std::string& tables, const std::string& out, uid_t user) {
  char path[kLongestLockPath];
  MarkPath(tables.c_str(), out.c_str(), user, path, sizeof path);
  struct stat info;
  return lstat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == 0 && info.st_nlink == 1 &&
         info.st_size == 0;  // not a link to another file of root's
}

void RemoveMark(const std::string& tables, const std::string& out, uid_t user) {
  if (!HasMark(tables, out, user)) return;
  char path[kLongestLockPath];
  MarkPath(tables.c_str(), out.c_str(), user, path, sizeof path);
  unlink(path);
}

void ServedUsers::Look(const FileDescriptor& folder) {
  if (geteuid() != 0) return;
  // "<tables>/holdfast.0.<hash>.lock" is the lock; a mark differs in the number.
  char path[kLongestLockPath];
  MarkPath("", out_.c_str(), 0, path, sizeof path);
  const std::string end = std::string(path).substr(sizeof kTablePrefix + 1);  // ".<hash>.lock"
  const int copy = openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (copy < 0) return;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(copy), closedir);
  while (const dirent* entry = readdir(listing.get())) {
    absl::string_view name = entry->d_name;
    uid_t user = 0;
    if (!absl::ConsumePrefix(&name, kTablePrefix) || !absl::ConsumeSuffix(&name, end) ||
        !absl::SimpleAtoi(name, &user) || user == 0 || marks_.size() >= kMostUsers) {
      continue;
    }
    FileDescriptor& mark = marks_[user];
    struct stat info;
    if (!mark.valid()) {
      mark = FileDescriptor(
          openat(folder.get(), entry->d_name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
      if (!mark.valid() || fstat(mark.get(), &info) != 0 || !S_ISREG(info.st_mode) || info.st_uid != 0) {
        marks_.erase(user);
        continue;
      }
    }
    // Whoever asks whether it is locked holds it for some microseconds: then at the next look.
    flock(mark.get(), LOCK_EX | LOCK_NB);
  }
}

void ServedUsers::LeaveMark(uid_t user) {
  char path[kLongestLockPath];
  MarkPath(tables_.c_str(), out_.c_str(), user, path, sizeof path);
  // That user's own exporter may hold its lock there: it cannot write into the folder, and is told so by nobody.
  if (!HasMark(tables_, out_, user)) unlink(path);
  const FileDescriptor mark(open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (mark.valid()) fchmod(mark.get(), 0644);  // whatever the umask is
}

void ServedUsers::Vouch(const FileDescriptor& folder, uid_t user, const OutputFolder& output) {
  struct stat info;
  if (fstat(output.folder().get(), &info) != 0 || info.st_uid == user || (info.st_mode & S_IWOTH) != 0) return;
  LeaveMark(user);
  Look(folder);
}

void ServedUsers::VouchForDescendants(const FileDescriptor& folder, const std::vector<TableOwner>& ancestors,
                                      const OutputFolder& output) {
  std::set<std::string> there;
  for (const uid_t user : OtherUsersOfTables(folder)) {
    for (const std::string& name : ListTableNames(folder, kTableSuffix, user)) {
      there.insert(name);
      if (Has(user) || strangers_.contains(name)) continue;
      const absl::StatusOr<TableFile> table = TableFile::Open(folder, name, user);
      if (table.ok() && table->out() == out_ && IsDescendant(table->owner(), user, ancestors))
        Vouch(folder, user, output);
    }
  }
  strangers_ = std::move(there);
}

void ServedUsers::Release() {
  for (const auto& [user, mark] : marks_) {
    RemoveMark(tables_, out_, user);
    released_.insert(user);
  }
  marks_.clear();
}

void ServedUsers::TakeBack(const FileDescriptor& folder) {
  for (const uid_t user : std::exchange(released_, {})) {
    for (const std::string& name : ListTableNames(folder, kTableSuffix, user)) {
      const absl::StatusOr<TableFile> table = TableFile::Open(folder, name, user);
      if (table.ok() && table->out() == out_) LeaveMark(user);
    }
  }
}

}  // namespace holdfast
