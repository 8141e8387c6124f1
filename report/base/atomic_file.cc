#include "report/base/atomic_file.h"

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

AtomicFile::AtomicFile(std::string path, std::ostream& standard_output, Readers readers)
    : path_(std::move(path)), standard_output_(standard_output), readers_(readers) {}

AtomicFile::~AtomicFile() {
  if (fd_ > STDERR_FILENO) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

void AtomicFile::NoteError() {
  if (why_.empty()) why_ = std::strerror(errno);
}

void AtomicFile::Fail(std::string why) {
  if (why_.empty()) why_ = std::move(why);
}

void AtomicFile::Open() {
  if (fd_ >= 0 || !why_.empty()) return;
  if (path_ == "-") {
    standard_output_.flush();
    fd_ = STDOUT_FILENO;
    return;
  }
  target_ = path_;
  if (char* real = realpath(path_.c_str(), nullptr); real != nullptr) {
    target_ = real;
    free(real);
  }
  struct stat there {};
  const bool exists = stat(target_.c_str(), &there) == 0;
  if (exists && S_ISDIR(there.st_mode)) return Fail("it is a folder, not a regular file");
  if (exists && !S_ISREG(there.st_mode)) {
    fd_ = open(target_.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd_ < 0) NoteError();
    return;
  }
  std::string temporary = target_ + ".holdfast-XXXXXX";
  fd_ = mkostemp(temporary.data(), O_CLOEXEC);
  if (fd_ < 0) return NoteError();
  temporary_ = std::move(temporary);
  const mode_t mask = umask(0);
  umask(mask);
  const mode_t fresh = readers_ == Readers::kOwner ? 0600 : 0666 & ~mask;
  if (fchmod(fd_, exists ? there.st_mode & 07777 : fresh) != 0) NoteError();
}

int AtomicFile::fd() {
  Open();
  return fd_;
}

void AtomicFile::Write(std::string_view bytes) {
  if (path_ == "-") {
    standard_output_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return;
  }
  Open();
  while (why_.empty() && !bytes.empty()) {
    const ssize_t written = write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return NoteError();
    bytes.remove_prefix(static_cast<size_t>(written));
  }
}

absl::Status AtomicFile::Finish() {
  const bool standard = path_ == "-";
  if (!standard) Open();  // nothing was written: creates an empty file
  const int fd = std::exchange(fd_, -1);
  if (!standard && fd >= 0 && close(fd) != 0) NoteError();
  const std::string temporary = std::exchange(temporary_, "");
  if (why_.empty() && !temporary.empty() && rename(temporary.c_str(), target_.c_str()) != 0) NoteError();
  if (why_.empty()) return absl::OkStatus();
  if (!temporary.empty()) unlink(temporary.c_str());
  return absl::UnavailableError(
      fmt::format("{}: could not write ({}). Check the folder, its permissions and the free space.",
                  standard ? "standard output" : path_, why_));
}

absl::Status WriteAtomically(const std::string& path, std::string_view bytes, std::ostream& standard_output) {
  AtomicFile file(path, standard_output);
  file.Write(bytes);
  return file.Finish();
}

}  // namespace holdfast
