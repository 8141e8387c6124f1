// What `-o FILE` means: the whole of a result under its name, or nothing. "-" is standard output.
#ifndef HOLDFAST_REPORT_OUTPUT_FILE_H_
#define HOLDFAST_REPORT_OUTPUT_FILE_H_

#include <ostream>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace holdfast {

// Written beside it and renamed, so that a full disk leaves what was there before. Devices and pipes are written as
// they are.
absl::Status WriteOutput(const std::string& path, std::string_view bytes, std::ostream& standard_output);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OUTPUT_FILE_H_
