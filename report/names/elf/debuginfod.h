// Asks debuginfod servers for files by build id. Loads libdebuginfod on first use, because its HTTP client would slow
// every start of the tool. The library caches files in $XDG_CACHE_HOME/debuginfod_client.
#ifndef HOLDFAST_REPORT_NAMES_ELF_DEBUGINFOD_H_
#define HOLDFAST_REPORT_NAMES_ELF_DEBUGINFOD_H_

#include <string>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

class Debuginfod {
 public:
  // Returns true if $DEBUGINFOD_URLS names servers.
  static bool IsAsked();

  Debuginfod() = default;
  Debuginfod(const Debuginfod&) = delete;
  Debuginfod& operator=(const Debuginfod&) = delete;
  ~Debuginfod();

  // Returns the debug file for a build id (lower-case hexadecimal). Waits for the servers up to $DEBUGINFOD_TIMEOUT, 90
  // s by default.
  absl::StatusOr<FileDescriptor> FindDebugFile(const std::string& build_id);

 private:
  struct Library;
  absl::Status Load();

  absl::Status load_status_;
  bool tried_ = false;
  void* client_ = nullptr;
  const Library* library_ = nullptr;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_NAMES_ELF_DEBUGINFOD_H_
