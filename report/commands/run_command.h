// `holdfast run`: starts a program with the library in it, and the exporter beside it.
#ifndef HOLDFAST_REPORT_COMMANDS_RUN_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_RUN_COMMAND_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace holdfast {

// Adds the subcommand. `program` is the program with its arguments, which CLI11 never sees: see SplitProgram. When the
// subcommand is chosen it runs; it sets *exit_code only where it failed itself, and otherwise ends this process as the
// program ended (or, with --exec, becomes it). Both must live as long as `app`.
void AddRunCommand(CLI::App& app, const std::vector<std::string>* program, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_RUN_COMMAND_H_
