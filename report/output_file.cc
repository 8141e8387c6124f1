#include "report/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "fmt/format.h"

namespace holdfast {
namespace {

absl::Status Failure(const std::string& path, int error) {
  return absl::InternalError(fmt::format(
      "{}: could not write ({}). Check the folder, its permissions and the free space.", path, std::strerror(error)));
}

int WriteAll(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return 0;
}

}  // namespace

absl::Status WriteOutput(const std::string& path, std::string_view bytes, std::ostream& standard_output) {
  if (path == "-") {
    standard_output.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return absl::OkStatus();
  }
  struct stat there {};
  const bool exists = stat(path.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) {
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    const int error = fd < 0 ? errno : WriteAll(fd, bytes);
    if (fd >= 0) close(fd);
    return error == 0 ? absl::OkStatus() : Failure(path, error);
  }
  std::string temporary = path + ".XXXXXX";
  const int fd = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return Failure(path, errno);
  const mode_t mask = umask(0);
  umask(mask);
  int error = fchmod(fd, exists ? there.st_mode & 0777 : 0666 & ~mask) == 0 ? WriteAll(fd, bytes) : errno;
  if (close(fd) != 0 && error == 0) error = errno;
  if (error == 0 && rename(temporary.c_str(), path.c_str()) != 0) error = errno;
  if (error == 0) return absl::OkStatus();
  unlink(temporary.c_str());
  return Failure(path, error);
}

}  // namespace holdfast
