// `holdfast set`: other intervals for running programs, or none, without a signal.
#ifndef HOLDFAST_REPORT_COMMANDS_SET_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_SET_COMMAND_H_

#include "CLI/CLI.hpp"

namespace holdfast {

// `exit_code` is set when the command has run.
void AddSetCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_SET_COMMAND_H_
