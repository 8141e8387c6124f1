// What is wrong with a command line, in our words: CLI11's own texts differ between its versions and speak of "the
// following argument".
#ifndef HOLDFAST_REPORT_COMMAND_LINE_USAGE_ERROR_H_
#define HOLDFAST_REPORT_COMMAND_LINE_USAGE_ERROR_H_

#include <string>

#include "CLI/CLI.hpp"

namespace holdfast {

// A part of a line, without its full stop: "FILE is missing", "--cum does not take \"x\"".
std::string UsageError(const CLI::ParseError& error);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMAND_LINE_USAGE_ERROR_H_
