// Describes errors on the command line in our own words. CLI11's texts differ between its versions and use phrases such
// as "the following argument".
#ifndef HOLDFAST_REPORT_CMD_USAGE_ERROR_H_
#define HOLDFAST_REPORT_CMD_USAGE_ERROR_H_

#include <string>

#include "CLI/CLI.hpp"

namespace holdfast {

// Returns a part of a sentence, without a full stop: "FILE is missing", "--cum does not take \"x\"".
std::string UsageError(const CLI::ParseError& error);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_USAGE_ERROR_H_
