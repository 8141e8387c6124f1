// The part of table_folder.h that lists the tables in a folder.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "report/base/folder_names.h"
#include "report/observe/table/table_folder.h"
#include "sampler/contract/layout.h"

namespace holdfast {

std::vector<std::string> DefaultTableFolders() {
  std::vector<std::string> folders = {"/dev/shm"};
  if (const char* runtime = getenv("XDG_RUNTIME_DIR"); runtime != nullptr && *runtime != '\0')
    folders.emplace_back(runtime);
  return folders;
}

absl::StatusOr<FileDescriptor> OpenFolder(const std::string& path) {
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid()) return absl::ErrnoToStatus(errno, path);
  return folder;
}

std::vector<std::string> ListTableNames(const FileDescriptor& folder, const char* suffix, uid_t user) {
  std::vector<std::string> names;
  const std::string prefix = absl::StrCat(kTablePrefix, user, ".");
  ForEachName(folder.get(), [&](const char* name) {
    if (!absl::StartsWith(name, kTablePrefix) || !absl::EndsWith(name, suffix)) return;
    struct stat info;
    if (absl::StartsWith(name, prefix) ||
        (user == geteuid() && fstatat(folder.get(), name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(info.st_mode) &&
         info.st_uid == user)) {
      names.emplace_back(name);
    }
  });
  return names;
}

bool AnySmall(const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return absl::EndsWith(name, kSmallSuffix); });
}

std::set<std::string> ShowSmallTables(const FileDescriptor& folder, uid_t user, const std::set<std::string>& due,
                                      const char* suffix) {
  std::set<std::string> others;
  for (const std::string& name : ListTableNames(folder, suffix, user)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(folder, name, user);
    if (!table.ok()) continue;
    if (table->liveness() == Liveness::kDead || due.contains(name)) {
      // If it is gone, its process has just ended, or has done the same.
      renameat(folder.get(), name.c_str(), folder.get(), std::string(absl::StripSuffix(name, kSmallSuffix)).c_str());
    } else {
      others.insert(name);
    }
  }
  return others;
}

std::vector<std::string> NamesOfOurs(const FileDescriptor& folder) {
  std::vector<std::string> names;
  ForEachName(folder.get(), [&names](const char* name) {
    if (absl::StartsWith(name, kTablePrefix)) names.emplace_back(name);
  });
  return names;
}

FolderId FolderIdOf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return {};
  return {info.st_dev, info.st_ino};
}

std::vector<uid_t> OtherUsersOfTables(const FileDescriptor& folder) {
  std::set<uid_t> users;
  if (geteuid() != 0) return {};
  ForEachName(folder.get(), [&users](absl::string_view name) {
    uid_t user = 0;
    const bool is_table = absl::EndsWith(name, kTableSuffix) || absl::EndsWith(name, kSmallSuffix);
    if (!absl::ConsumePrefix(&name, kTablePrefix) || !is_table) return;
    if (absl::SimpleAtoi(name.substr(0, name.find('.')), &user) && user != 0) users.insert(user);
  });
  return {users.begin(), users.end()};
}

namespace {

void AddTables(const FileDescriptor& folder, uid_t user, std::vector<FoundTable>* found) {
  for (const std::string& name : ListTableNames(folder, kTableSuffix, user)) {
    const absl::StatusOr<TableFile> table = TableFile::Open(folder, name, user);
    if (table.ok())
      found->push_back(
          {name, table->out(), table->out_id(), table->program(), table->owner(), table->liveness(), user});
  }
}

}  // namespace

std::vector<FoundTable> ListTables(const std::string& path) {
  std::vector<FoundTable> found;
  if (const absl::StatusOr<FileDescriptor> folder = OpenFolder(path); folder.ok())
    AddTables(*folder, geteuid(), &found);
  return found;
}

std::vector<FoundTable> ListTablesOfAll(const std::string& path) {
  std::vector<FoundTable> found = ListTables(path);
  const absl::StatusOr<FileDescriptor> folder = OpenFolder(path);
  if (!folder.ok()) return found;
  for (const uid_t user : OtherUsersOfTables(*folder)) AddTables(*folder, user, &found);
  return found;
}

}  // namespace holdfast
