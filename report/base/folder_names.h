// Lists an open folder: ForEachName(folder.get(), [&](const char* name) { ... }). The descriptor stays usable, and may be
// listed again.
#ifndef HOLDFAST_REPORT_BASE_FOLDER_NAMES_H_
#define HOLDFAST_REPORT_BASE_FOLDER_NAMES_H_

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "report/base/file_descriptor.h"

namespace holdfast {

// Calls the function for each name, also for "." and "..". Returns false, and errno, if the folder cannot be listed, for
// instance because descriptors lack.
template <typename Function>
bool ForEachName(int folder, Function function) {
  // With a position of its own: the position of `folder` is shared with its copies.
  const FileDescriptor own(openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own.valid()) return false;
  // Not with readdir, which makes three more system calls and needs memory: an exporter lists a folder for each process.
  alignas(dirent64) char entries[16 << 10];
  while (true) {
    const auto bytes = syscall(SYS_getdents64, own.get(), entries, sizeof entries);
    if (bytes <= 0) return bytes == 0 || errno == ENOENT;  // ENOENT: the folder was removed
    for (ptrdiff_t at = 0; at < bytes;) {
      const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      function(static_cast<const char*>(entry->d_name));
    }
  }
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_FOLDER_NAMES_H_
