// `holdfast dump`: a snapshot of running programs now, also of one that is stopped or hangs.
#ifndef HOLDFAST_REPORT_COMMANDS_DUMP_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_DUMP_COMMAND_H_

#include "CLI/CLI.hpp"

namespace holdfast {

// `exit_code` is set when the command has run.
void AddDumpCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_DUMP_COMMAND_H_
