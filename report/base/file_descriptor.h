// A descriptor that closes itself. Movable, not copyable.
#ifndef HOLDFAST_REPORT_BASE_FILE_DESCRIPTOR_H_
#define HOLDFAST_REPORT_BASE_FILE_DESCRIPTOR_H_

#include <unistd.h>

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

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_FILE_DESCRIPTOR_H_
