#include "report/daemon/served_users.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "report/observe/table/table_destination.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/exporter_service.h"
#include "sampler/contract/layout.h"

namespace holdfast {
namespace {

// Everybody may create files there; limit the users for one folder.
constexpr size_t kMaxUsers = 64;

std::string MarkOf(const std::string& tables, const std::string& out, FolderId id, uid_t user) {
  char path[kLongestLockPath];
  MarkPath(tables.c_str(), out.c_str(), id, user, path, sizeof path);
  return path;
}

// Returns ".<hash>.lock", the common end of root's own lock "/dev/shm/holdfast.0.<hash>.lock" and of marks, which
// differ in the number.
std::string EndOfMark(const std::string& out, FolderId id) {
  return MarkOf("", out, id, 0).substr(sizeof kTablePrefix + 1);
}

// Rejects links to other files of root's.
bool IsMark(const struct stat& info) {
  return S_ISREG(info.st_mode) && info.st_uid == 0 && info.st_nlink == 1 && info.st_size == 0;
}

// The kinds of marks for a user.
enum Mark : uint32_t { kOwn = 1, kShared = 2, kOfAnotherFolder = 4 };

}  // namespace

bool HasMark(const std::string& tables, const std::string& out, FolderId id, uid_t user) {
  struct stat info;
  return lstat(MarkOf(tables, out, id, user).c_str(), &info) == 0 && IsMark(info);
}

void RemoveMarks(const std::string& tables, const std::string& out, FolderId id, uid_t user) {
  if (HasMark(tables, out, id, user)) unlink(MarkOf(tables, out, id, user).c_str());
  if (!id.known() || !HasMark(tables, out, FolderId{}, user)) return;
  const std::string path = MarkOf(tables, out, FolderId{}, user);
  const FileDescriptor shared(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (shared.valid() && flock(shared.get(), LOCK_EX | LOCK_NB) == 0) unlink(path.c_str());
}

std::map<uid_t, uint32_t> ServedUsers::MarksAmong(const FileDescriptor& folder,
                                                  const std::vector<std::string>& names) const {
  std::map<uid_t, uint32_t> there;
  for (const std::string& file : names) {
    absl::string_view name = file;
    uid_t user = 0;
    struct stat info;
    if (!absl::ConsumePrefix(&name, kTablePrefix) || !absl::EndsWith(name, ".lock")) continue;
    const size_t end = std::min(name.find('.'), name.size());
    if (!absl::SimpleAtoi(name.substr(0, end), &user) || user == 0 ||
        fstatat(folder.get(), file.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0 || !IsMark(info)) {
      continue;
    }
    name.remove_prefix(end);
    there[user] |= name == EndOfMark(out_, id_)          ? kOwn
                   : name == EndOfMark(out_, FolderId{}) ? kShared
                                                         : kOfAnotherFolder;
  }
  return there;
}

void ServedUsers::Look(const FileDescriptor& folder) { Look(folder, NamesOfOurs(folder)); }

void ServedUsers::Look(const FileDescriptor& folder, const std::vector<std::string>& names) {
  if (geteuid() != 0) return;
  for (const auto& [user, marks] : MarksAmong(folder, names)) {
    if (marks_.size() >= kMaxUsers) break;
    if ((marks & kOwn) != 0 || marks == kShared) marks_.try_emplace(user);
  }
  for (auto& [user, marks] : marks_) {
    Hold(id_, user, marks.own);
    if (id_.known()) Hold(FolderId{}, user, marks.shared);
  }
}

// Locks the mark, and creates it again if another container's exporter has removed it.
void ServedUsers::Hold(FolderId id, uid_t user, FileDescriptor& mark) const {
  struct stat info;
  if (!mark.valid() || fstat(mark.get(), &info) != 0 || info.st_nlink == 0) {
    LeaveMark(id, user);
    mark = FileDescriptor(
        open(MarkOf(tables_, out_, id, user).c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (mark.valid() && (fstat(mark.get(), &info) != 0 || !IsMark(info))) mark.Close();
  }
  // A process that checks the lock holds it for some microseconds: then lock it at the next look.
  if (mark.valid()) flock(mark.get(), LOCK_EX | LOCK_NB);
}

void ServedUsers::LeaveMark(FolderId id, uid_t user) const {
  if (HasMark(tables_, out_, id, user)) return;
  const std::string path = MarkOf(tables_, out_, id, user);
  // That user's own exporter may hold its lock there. It cannot write into the folder, and nobody has told it.
  unlink(path.c_str());
  const FileDescriptor mark(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644));
  if (mark.valid()) fchmod(mark.get(), 0644);  // independent of the umask
}

void ServedUsers::Vouch(const FileDescriptor& folder, uid_t user, const OutputFolder& output) {
  struct stat info;
  if (fstat(output.folder().get(), &info) != 0 || info.st_uid == user || (info.st_mode & S_IWOTH) != 0) return;
  LeaveMark(id_, user);
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
      if (table.ok() && GoesTo(*table, out_, id_) && IsDescendant(table->owner(), user, ancestors))
        Vouch(folder, user, output);
    }
  }
  strangers_ = std::move(there);
}

void ServedUsers::Release() {
  for (auto& [user, marks] : marks_) {
    marks.shared.Close();
    RemoveMarks(tables_, out_, id_, user);
    released_.insert(user);
  }
  marks_.clear();
}

void ServedUsers::TakeBack(const FileDescriptor& folder) {
  for (const uid_t user : std::exchange(released_, {})) {
    for (const std::string& name : ListTableNames(folder, kTableSuffix, user)) {
      const absl::StatusOr<TableFile> table = TableFile::Open(folder, name, user);
      if (table.ok() && GoesTo(*table, out_, id_)) LeaveMark(id_, user);
    }
  }
}

}  // namespace holdfast
