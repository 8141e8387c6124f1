// Reads files in /proc that the kernel writes as a whole, such as stat, cgroup and environ, but not maps. ReadWhole
// (file_descriptor.h) reads any file.
#ifndef HOLDFAST_REPORT_BASE_PROC_FILE_H_
#define HOLDFAST_REPORT_BASE_PROC_FILE_H_

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string>

#include "report/base/file_descriptor.h"

namespace holdfast {

// Reads at most `most` bytes; "" if the file cannot be read. A short read is the end, so there is usually one read.
inline std::string ReadProcFile(const FileDescriptor& file, size_t most = SIZE_MAX) {
  std::string text;
  char buffer[8 << 10];
  while (file.valid() && text.size() < most) {
    const size_t wanted = std::min(sizeof buffer, most - text.size());
    const ssize_t got = read(file.get(), buffer, wanted);
    if (got < 0 && errno == EINTR) continue;
    if (got > 0) text.append(buffer, static_cast<size_t>(got));
    if (got < static_cast<ssize_t>(wanted)) break;
  }
  return text;
}
inline std::string ReadProcFile(const std::string& path, size_t most = SIZE_MAX) {
  return ReadProcFile(FileDescriptor(open(path.c_str(), O_RDONLY | O_CLOEXEC)), most);
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_PROC_FILE_H_
