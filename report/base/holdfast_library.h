// Recognizes the library among the files that a process has mapped.
#ifndef HOLDFAST_REPORT_BASE_HOLDFAST_LIBRARY_H_
#define HOLDFAST_REPORT_BASE_HOLDFAST_LIBRARY_H_

#include <string_view>

#include "report/base/base_name.h"

namespace holdfast {

// Whether this is the library: a path or the last part of one, as /proc/PID/maps and profiles have it. The file may be
// deleted. `holdfast attach` may load it from a file in memory: "/memfd:libholdfast.so (deleted)".
inline bool IsHoldfastLibrary(std::string_view path) {
  constexpr std::string_view kInMemory = "memfd:";
  std::string_view name = BaseName(path);
  if (name.starts_with(kInMemory)) name.remove_prefix(kInMemory.size());
  return name.starts_with("libholdfast.so");
}

// Whether the text of /proc/PID/maps has the library.
inline bool MapsHoldfastLibrary(std::string_view maps) {
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    if (const size_t path = line.find('/'); path != std::string_view::npos && IsHoldfastLibrary(line.substr(path)))
      return true;
    maps.remove_prefix(line.size());
    if (!maps.empty()) maps.remove_prefix(1);
  }
  return false;
}

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_HOLDFAST_LIBRARY_H_
