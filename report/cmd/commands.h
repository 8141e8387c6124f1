// The list of all subcommands. Each Add…Command adds one subcommand with its options and help to `app`. When the user
// chooses it, the subcommand runs and stores its exit code in `invocation`, which must live as long as `app`.
//
// A new subcommand needs report/cmd/add_NAME.cc (or report/cmd/ for servers, report/cmd/
// for memory, report/show/ for lifetimes), a line here and a line in main.cc.
#ifndef HOLDFAST_REPORT_CMD_COMMANDS_H_
#define HOLDFAST_REPORT_CMD_COMMANDS_H_

#include <string>
#include <vector>

#include "CLI/CLI.hpp"

namespace holdfast {

struct Invocation {
  std::vector<std::string> program;  // the words after `--`: the program that `run` starts or `doctor` checks
  int exit_code = 0;                 // see ExitCode in report/base/say.h
};

using AddCommand = void(CLI::App& app, Invocation* invocation);

// Programs and processes.
AddCommand AddRunCommand, AddAttachCommand, AddDetachCommand, AddDoctorCommand, AddLsCommand, AddDumpCommand,
    AddStuckCommand, AddMemoryCommand, AddHoldersCommand, AddSetCommand, AddCollectCommand, AddServeCommand,
    AddPushCommand, AddAgentCommand, AddExporterCommand;
// Views of profiles.
AddCommand AddTopCommand, AddTreeCommand, AddCallersCommand, AddPeekCommand, AddListCommand, AddGraphCommand,
    AddDiffCommand, AddLeaksCommand, AddLocksCommand, AddThreadsCommand, AddInfoCommand, AddLifetimesCommand,
    AddCheckCommand, AddHtmlCommand;
// Commands that read files and write files.
AddCommand AddExportCommand, AddMergeCommand, AddSymbolizeCommand, AddBundleCommand;
// Commands about the tool itself. `app` must already hold all other commands when one of these runs.
AddCommand AddCompletionCommand, AddManPagesCommand;

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_COMMANDS_H_
