// The command lines of what looks at several profiles: diff, merge, leaks, check.
#ifndef HOLDFAST_REPORT_COMMANDS_ANALYSIS_COMMANDS_H_
#define HOLDFAST_REPORT_COMMANDS_ANALYSIS_COMMANDS_H_

#include "CLI/CLI.hpp"

namespace holdfast {

// Adds the subcommands; what is chosen runs and sets *exit_code, which must live as long as `app`.
void AddAnalysisCommands(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_ANALYSIS_COMMANDS_H_
