// Writes a file that is there whole or not at all: under a temporary name in the same folder, then renamed.
#ifndef HOLDFAST_REPORT_BASE_WHOLE_FILE_H_
#define HOLDFAST_REPORT_BASE_WHOLE_FILE_H_

#include <functional>
#include <string>

#include "absl/status/status.h"

namespace holdfast {

// `write` fills a descriptor. "-" is standard output, which is written as it comes. A file that was there keeps its
// permissions (else 0600: profiles hold command lines); what a symbolic link points to is replaced, not the link. On
// failure what was there stays. The message is complete: "/x/y.pb.gz: could not write (No space left on device). …"
absl::Status WriteWholeFile(const std::string& path, const std::function<absl::Status(int fd)>& write);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BASE_WHOLE_FILE_H_
