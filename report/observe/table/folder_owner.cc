#include "report/observe/table/folder_owner.h"

#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"

namespace holdfast {
namespace {

bool IsTrusted(uid_t owner) { return owner == geteuid() || owner == 0; }

absl::Status Refused(const std::string& path, std::string_view what, uid_t owner) {
  return absl::PermissionDeniedError(
      fmt::format("{}: {} belongs to {}, who could create it in this shared folder", path, what, UserName(owner)));
}

}  // namespace

std::string UserName(uid_t user) {
  passwd entry;
  passwd* found = nullptr;
  char buffer[4096];
  if (getpwuid_r(user, &entry, buffer, sizeof buffer, &found) != 0 || found == nullptr)
    return fmt::format("user {}", user);
  return fmt::format("{} ({})", found->pw_name, user);
}

int MakeFolders(const std::string& path, std::vector<std::string>* made) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string part = path.substr(0, end);
    if (mkdir(part.c_str(), 0700) == 0) {
      if (made != nullptr) made->push_back(part);
    } else if (const int error = errno;
               error != EEXIST && (end == std::string::npos || access(part.c_str(), F_OK) != 0)) {
      return error;
    }
    if (end == std::string::npos) return 0;
  }
}

absl::StatusOr<FileDescriptor> OpenOwnFolder(const std::string& path) {
  struct stat link, info, above;
  if (lstat(path.c_str(), &link) == 0 && S_ISLNK(link.st_mode) && !IsTrusted(link.st_uid)) {
    return Refused(path, "the link", link.st_uid);
  }
  FileDescriptor folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder.valid() || fstat(folder.get(), &info) != 0) return absl::ErrnoToStatus(errno, path);
  if (!IsTrusted(info.st_uid) && (fstatat(folder.get(), "..", &above, 0) != 0 || (above.st_mode & S_IWOTH) != 0)) {
    return Refused(path, "the folder", info.st_uid);
  }
  return folder;
}

std::string RightsOfOthers(const FileDescriptor& folder) {
  struct stat info;
  if (fstat(folder.get(), &info) != 0) return "";
  if (!IsTrusted(info.st_uid)) return fmt::format("{} owns it and can delete its files", UserName(info.st_uid));
  const bool writable = (info.st_mode & S_IWOTH) != 0 && (info.st_mode & S_ISVTX) == 0;
  return writable ? fmt::format("everybody can delete its files (mode {:04o})", info.st_mode & 07777) : "";
}

}  // namespace holdfast
