// Shared libraries that only some commands need, and that are loaded on demand: libcurl, libdebuginfod, libmicrohttpd.
#ifndef HOLDFAST_REPORT_BASE_LOAD_LIBRARY_H_
#define HOLDFAST_REPORT_BASE_LOAD_LIBRARY_H_

#include <initializer_list>

#include "absl/status/statusor.h"

namespace holdfast {

// Returns the handle, for dlsym, of the first of these libraries that can be loaded. The error says that `names` first is
// not installed and, in brackets, `packages`; or that a static tool cannot load it.
absl::StatusOr<void*> LoadLibrary(std::initializer_list<const char*> names, const char* packages);

// Returns whether this tool is the one for systems without glibc (packaging/static_glibc.cc). It loads no library; libcurl,
// with HTTP alone, is linked in.
bool IsLinkedStatically();

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_LOAD_LIBRARY_H_
