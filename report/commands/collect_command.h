// `holdfast collect DIR`: turns the tables of processes that nobody exported into profiles.
#ifndef HOLDFAST_REPORT_COMMANDS_COLLECT_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_COLLECT_COMMAND_H_

#include "CLI/CLI.hpp"

namespace holdfast {

void AddCollectCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_COLLECT_COMMAND_H_
