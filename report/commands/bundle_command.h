// `holdfast bundle FILE…`: profiles with all that is needed to read them, in one file to send to somebody else.
#ifndef HOLDFAST_REPORT_COMMANDS_BUNDLE_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_BUNDLE_COMMAND_H_

#include "CLI/CLI.hpp"

namespace holdfast {

// Adds the subcommand; when it is chosen it runs and sets *exit_code, which must live as long as `app`.
void AddBundleCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_BUNDLE_COMMAND_H_
