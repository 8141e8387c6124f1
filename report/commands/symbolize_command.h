// `holdfast symbolize FILE…`: names, source lines and inlined functions into files of profiles.
#ifndef HOLDFAST_REPORT_COMMANDS_SYMBOLIZE_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_SYMBOLIZE_COMMAND_H_

#include "CLI/CLI.hpp"

namespace holdfast {

// Adds the subcommand; when it is chosen it runs and sets *exit_code, which must live as long as `app`.
void AddSymbolizeCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_SYMBOLIZE_COMMAND_H_
