// Tells which libraries belong to the system.
#ifndef HOLDFAST_REPORT_RUN_SYSTEM_LIBRARIES_H_
#define HOLDFAST_REPORT_RUN_SYSTEM_LIBRARIES_H_

#include <string_view>

namespace holdfast {

// Whether the file is directly in a folder of system libraries ("/usr/lib/x86_64-linux-gnu/libcap.so.2"), not in a
// subfolder.
inline bool IsSystemLibrary(std::string_view path) {
  for (const std::string_view folder :
       {"/usr/lib64/", "/usr/lib/x86_64-linux-gnu/", "/usr/lib/aarch64-linux-gnu/", "/usr/lib/", "/lib64/",
        "/lib/x86_64-linux-gnu/", "/lib/aarch64-linux-gnu/", "/lib/"}) {
    if (path.starts_with(folder) && path.find('/', folder.size()) == std::string_view::npos) return true;
  }
  return false;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_SYSTEM_LIBRARIES_H_
