// The command lines of the views: top, tree, callers, peek, list, graph, export. Each of these adds its subcommand;
// when it is chosen it runs and sets *exit_code, which must live as long as `app`.
#ifndef HOLDFAST_REPORT_COMMANDS_VIEW_COMMANDS_H_
#define HOLDFAST_REPORT_COMMANDS_VIEW_COMMANDS_H_

#include "CLI/CLI.hpp"
#include "report/views/selection.h"

namespace holdfast {

// All of them.
void AddViewCommands(CLI::App& app, int* exit_code);

void AddTopCommand(CLI::App& app, int* exit_code);
void AddTreeCommand(CLI::App& app, int* exit_code);
void AddCallersCommand(CLI::App& app, int* exit_code);
void AddPeekCommand(CLI::App& app, int* exit_code);
void AddListCommand(CLI::App& app, int* exit_code);
void AddGraphCommand(CLI::App& app, int* exit_code);
void AddExportCommand(CLI::App& app, int* exit_code);

// The options that views have in common, by pprof's names.
void AddFileOptions(CLI::App* command, ViewOptions* options);    // FILE…, --metric, --kind, --unit
void AddFilterOptions(CLI::App* command, ViewOptions* options);  // --focus … --by
void AddStyleOptions(CLI::App* command, ViewOptions* options);   // --format, --color

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_VIEW_COMMANDS_H_
