// The subcommands, the whole list. Each Add…Command adds one to `app`, with its options and its help; when it is chosen, it
// runs and leaves its exit code in `invocation`, which must live as long as `app`. A new one: report/commands/add_NAME.cc
// (of the server: report/fleet_commands/; memory: report/memory_commands/, lifetimes: report/lifetimes/), a line here, a line in main.cc.
#ifndef HOLDFAST_REPORT_COMMANDS_COMMANDS_H_
#define HOLDFAST_REPORT_COMMANDS_COMMANDS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace holdfast {

struct Invocation {
  std::vector<std::string> program;  // behind `--`: what `run` starts, and `doctor` looks at
  int exit_code = 0;                 // see ExitCode in report/base/say.h
};

using AddCommand = void(CLI::App& app, Invocation* invocation);

// Programs and processes.
AddCommand AddRunCommand, AddDoctorCommand, AddLsCommand, AddDumpCommand, AddStuckCommand, AddMemoryCommand,
    AddSetCommand, AddCollectCommand, AddServeCommand, AddPushCommand, AddAgentCommand, AddExporterCommand;
// Views of profiles.
AddCommand AddTopCommand, AddTreeCommand, AddCallersCommand, AddPeekCommand, AddListCommand, AddGraphCommand,
    AddDiffCommand, AddLeaksCommand, AddLocksCommand, AddInfoCommand, AddLifetimesCommand, AddCheckCommand,
    AddHtmlCommand;
// Files from files.
AddCommand AddExportCommand, AddMergeCommand, AddSymbolizeCommand, AddBundleCommand;
// Of the tool itself. `app` must hold all others when one of these runs.
AddCommand AddCompletionCommand, AddManPagesCommand;

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_COMMANDS_COMMANDS_H_
