// Lists an open folder: ForEachName(folder.get(), [&](const char* name) { ... }). The descriptor stays usable, and may be
// listed again.
#ifndef HOLDFAST_REPORT_BASE_FOLDER_NAMES_H_
#define HOLDFAST_REPORT_BASE_FOLDER_NAMES_H_

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "report/base/file_descriptor.h"

namespace holdfast {

// Calls the function for each name, also for "." and "..". Returns false, and errno, if the folder cannot be listed, for
// instance because memory or descriptors lack.
template <typename Function>
bool ForEachName(int folder, Function function) {
  // With a position of its own: the position of `folder` is shared with its copies.
  const int own = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (own < 0) return false;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(own), closedir);
  if (listing == nullptr) {  // owns no descriptor then
    const int error = errno;
    close(own);
    errno = error;
    return false;
  }
  while (const dirent* entry = readdir(listing.get())) function(static_cast<const char*>(entry->d_name));
  return true;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_FOLDER_NAMES_H_
