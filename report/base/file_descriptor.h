// A descriptor that closes itself (movable, not copyable), and functions that read on after a short read.
#ifndef HOLDFAST_REPORT_BASE_FILE_DESCRIPTOR_H_
#define HOLDFAST_REPORT_BASE_FILE_DESCRIPTOR_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>
#include <utility>

namespace holdfast {

class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor() { Close(); }

  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

// Reads up to `size` bytes at `offset`. Returns the number of bytes read, which is smaller at the end of the file and
// after an error.
inline size_t PreadAll(int fd, char* to, size_t size, uint64_t offset) {
  size_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd, to + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

// Reads up to `most` bytes from the file's current position. Works for files that report no size, such as those in
// /proc. Returns "" if the file cannot be read.
inline std::string ReadWhole(const FileDescriptor& file, size_t most = SIZE_MAX) {
  std::string text;
  char buffer[16 << 10];
  while (text.size() < most) {
    const ssize_t got = read(file.get(), buffer, std::min(sizeof buffer, most - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}
inline std::string ReadWhole(const std::string& path, size_t most = SIZE_MAX) {
  return ReadWhole(FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)), most);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_FILE_DESCRIPTOR_H_
