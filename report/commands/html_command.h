// `holdfast html`: the command line of report/html/html_report.h.
#ifndef HOLDFAST_REPORT_COMMANDS_HTML_COMMAND_H_
#define HOLDFAST_REPORT_COMMANDS_HTML_COMMAND_H_

#include "CLI/CLI.hpp"

namespace holdfast {

// Adds the subcommand; when it is chosen it runs and sets *exit_code, which must live as long as `app`.
void AddHtmlCommand(CLI::App& app, int* exit_code);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_HTML_COMMAND_H_
