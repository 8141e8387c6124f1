// Asks debuginfod servers for files by build id. The library is loaded when first needed (it brings an HTTP client with
// it, which every start of the tool would pay for); it keeps what it got in $XDG_CACHE_HOME/debuginfod_client.
#ifndef HOLDFAST_REPORT_ELF_DEBUGINFOD_H_
#define HOLDFAST_REPORT_ELF_DEBUGINFOD_H_

#include <string>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

class Debuginfod {
 public:
  // Off unless $DEBUGINFOD_URLS names servers.
  static bool IsAsked();

  Debuginfod() = default;
  Debuginfod(const Debuginfod&) = delete;
  Debuginfod& operator=(const Debuginfod&) = delete;
  ~Debuginfod();

  // The debug file of a build id (lower-case hexadecimal). Waits for the servers: $DEBUGINFOD_TIMEOUT, 90 s by default.
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

#endif  // HOLDFAST_REPORT_ELF_DEBUGINFOD_H_
