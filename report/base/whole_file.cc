#include "report/base/whole_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"

namespace holdfast {
namespace {

absl::Status Failed(const std::string& path, const std::string& why) {
  return absl::UnavailableError(
      fmt::format("{}: could not write ({}). Check the folder, the disk and the permissions.", path, why));
}

}  // namespace

absl::Status WriteWholeFile(const std::string& path, const std::function<absl::Status(int)>& write) {
  if (path == "-") {
    const absl::Status status = write(STDOUT_FILENO);
    return status.ok() ? status : Failed("standard output", std::string(status.message()));
  }
  std::string target = path;
  if (char* real = realpath(path.c_str(), nullptr); real != nullptr) {
    target = real;
    free(real);
  }
  struct stat before;
  const bool there = stat(target.c_str(), &before) == 0;
  if (there && !S_ISREG(before.st_mode)) return Failed(path, "not a regular file");
  std::string temporary = fmt::format("{}.holdfast-XXXXXX", target);
  const FileDescriptor file(mkostemp(temporary.data(), O_CLOEXEC));  // 0600
  if (!file.valid()) return Failed(path, std::strerror(errno));
  absl::Status status = write(file.get());
  std::string why(status.message());
  if (status.ok() &&
      ((there && fchmod(file.get(), before.st_mode & 07777) != 0) || rename(temporary.c_str(), target.c_str()) != 0)) {
    why = std::strerror(errno);
    status = absl::UnavailableError("");
  }
  if (status.ok()) return status;
  unlink(temporary.c_str());
  return Failed(path, why);
}

}  // namespace holdfast
