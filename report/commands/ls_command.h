// `holdfast ls`: the profiled processes of this user, and tables that outlived theirs.
#ifndef HOLDFAST_REPORT_COMMANDS_LS_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_LS_COMMAND_H_

#include "CLI/CLI.hpp"

namespace holdfast {

// `exit_code` is set when the command has run.
void AddLsCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_LS_COMMAND_H_
