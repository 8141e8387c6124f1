#include "report/base/output_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

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

Output::Output(std::string path, std::ostream& standard_output)
    : path_(std::move(path)), standard_output_(standard_output) {}

Output::~Output() {
  if (fd_ < 0) return;
  close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void Output::Open() {
  struct stat there {};
  const bool exists = stat(path_.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) {
    fd_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) error_ = errno;
    return;
  }
  std::string temporary = path_ + ".XXXXXX";
  fd_ = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd_ < 0) {
    error_ = errno;
    return;
  }
  temporary_ = std::move(temporary);
  const mode_t mask = umask(0);
  umask(mask);
  if (fchmod(fd_, exists ? there.st_mode & 0777 : 0666 & ~mask) != 0) error_ = errno;
}

void Output::Write(std::string_view bytes) {
  if (path_ == "-") {
    standard_output_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return;
  }
  if (fd_ < 0 && error_ == 0) Open();
  if (error_ == 0) error_ = WriteAll(fd_, bytes);
}

absl::Status Output::Finish() {
  if (path_ == "-") return absl::OkStatus();
  if (fd_ < 0 && error_ == 0) Open();  // nothing was written: an empty file
  const int fd = std::exchange(fd_, -1);
  if (fd >= 0 && close(fd) != 0 && error_ == 0) error_ = errno;
  if (error_ == 0 && !temporary_.empty() && rename(temporary_.c_str(), path_.c_str()) != 0) error_ = errno;
  if (error_ == 0) return absl::OkStatus();
  if (!temporary_.empty()) unlink(temporary_.c_str());
  return Failure(path_, error_);
}

absl::Status WriteOutput(const std::string& path, std::string_view bytes, std::ostream& standard_output) {
  Output output(path, standard_output);
  output.Write(bytes);
  return output.Finish();
}

}  // namespace holdfast
