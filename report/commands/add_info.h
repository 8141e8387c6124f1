// The command line of `holdfast info`.
#ifndef HOLDFAST_REPORT_COMMANDS_ADD_INFO_H_
#define HOLDFAST_REPORT_COMMANDS_ADD_INFO_H_

#include "CLI/CLI.hpp"

namespace holdfast {

// Adds the subcommand; when it is chosen it runs and sets *exit_code, which must live as long as `app`.
void AddInfoCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_ADD_INFO_H_
