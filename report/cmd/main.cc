// holdfast: the command line.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "report/analysis/growth/held_until.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/say.h"
#include "report/cmd/commands.h"
#include "report/cmd/did_you_mean.h"
#include "report/cmd/files_of_process.h"
#include "report/cmd/help.h"
#include "report/cmd/usage_error.h"
#include "report/daemon/held_in_table.h"
#include "report/daemon/installation.h"
#include "report/observe/table/tool_readers.h"
#include "report/run/leave_own_profile.h"
#include "report/run/run_options.h"
#include "report/show/fitted_text.h"
#include "report/show/pager.h"

namespace holdfast {
namespace {

struct Command {
  std::string_view name;
  AddCommand* add;
};

struct CommandGroup {
  const char* title;
  std::vector<Command> commands;
};

// In the order in which --help lists them.
const std::vector<CommandGroup>& Groups() {
  static const auto& groups = *new std::vector<CommandGroup>{
      {"Record",
       {{"run", AddRunCommand},
        {"attach", AddAttachCommand},
        {"detach", AddDetachCommand},
        {"collect", AddCollectCommand},
        {"doctor", AddDoctorCommand}}},
      {"Look at profiles",
       {{"top", AddTopCommand},
        {"tree", AddTreeCommand},
        {"callers", AddCallersCommand},
        {"peek", AddPeekCommand},
        {"list", AddListCommand},
        {"locks", AddLocksCommand},
        {"threads", AddThreadsCommand},
        {"leaks", AddLeaksCommand},
        {"lifetimes", AddLifetimesCommand},
        {"html", AddHtmlCommand},
        {"diff", AddDiffCommand},
        {"check", AddCheckCommand},
        {"info", AddInfoCommand},
        {"merge", AddMergeCommand},
        {"symbolize", AddSymbolizeCommand},
        {"bundle", AddBundleCommand},
        {"export", AddExportCommand},
        {"graph", AddGraphCommand}}},
      {"Look at live programs",
       {{"ls", AddLsCommand},
        {"dump", AddDumpCommand},
        {"stuck", AddStuckCommand},
        {"memory", AddMemoryCommand},
        {"holders", AddHoldersCommand},
        {"set", AddSetCommand}}},
      {"Operate",
       {{"serve", AddServeCommand},
        {"push", AddPushCommand},
        {"agent", AddAgentCommand},
        {"completion", AddCompletionCommand}}},
      {"", {{"man-pages", AddManPagesCommand}, {"exporter", AddExporterCommand}}}};  // hidden: users do not call them
  return groups;
}

bool IsCommand(std::string_view name) {
  return std::any_of(Groups().begin(), Groups().end(), [name](const CommandGroup& group) {
    return std::any_of(group.commands.begin(), group.commands.end(),
                       [name](const Command& command) { return command.name == name; });
  });
}

// Describing the options of all commands takes a millisecond, and each profiled program waits for that twice. Only the
// chosen command is described, unless no command is chosen or the arguments concern all commands.
void AddCommands(CLI::App& app, const std::vector<std::string>& arguments, Invocation* invocation) {
  const std::string_view first = arguments.empty() ? std::string_view() : arguments[0];
  if (first == "--version") return;
  const bool needs_all = first == "completion" || first == "man-pages" || !IsCommand(first);
  for (const CommandGroup& group : Groups()) {
    for (const Command& command : group.commands) {
      if (!needs_all && command.name != first) continue;
      command.add(app, invocation);
      app.get_subcommand(std::string(command.name))->group(group.title);
    }
  }
}

// {}: the path of the installed library.
constexpr char kTeaches[] =
    "Holdfast shows what a native program holds (memory) and what holds it up (locks). The program is not rebuilt:\n"
    "a library is preloaded into it, and profiles in pprof's format are written.\n"
    "\n"
    "  holdfast run -- redis-server --port 7000              run and profile a program; writes ./holdfast.redis-server.PID\n"
    "  holdfast top holdfast.redis-server.*/*.heap.pb.gz     the functions that hold the memory\n"
    "  LD_PRELOAD={} HOLDFAST_OUT=/tmp ./server\n"
    "                                                        what run does, without a launcher\n";

int WrongUsage(const CLI::App& app, const std::vector<std::string>& arguments, const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (!chosen.empty()) {
    const std::string& name = chosen[0]->get_name();
    const std::string wrong = UsageError(error);
    std::vector<std::string> options;
    for (const CLI::Option* option : chosen[0]->get_options()) {
      for (const std::string& of : option->get_lnames()) options.push_back("--" + of);
    }
    const std::string said = wrong.substr(0, wrong.find(':'));
    const bool is_one = std::find(options.begin(), options.end(), said) != options.end();  // its value is invalid
    const std::string meant = said.starts_with("--") && !is_one ? DidYouMean(said, options) : "";
    Say(fmt::format("{}: {}.{} See holdfast {} --help.", name, wrong, meant, name));
    return name == "run" ? kRunFailed : kWrongUsage;
  }
  if (arguments.empty()) {
    Say("no command given. Start with: holdfast run -- PROGRAM, and see holdfast --help");
  } else if (arguments[0].starts_with("-")) {
    Say(fmt::format("{}: no such option. See holdfast --help.", arguments[0]));
  } else {
    std::vector<std::string> names;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      if (!command->get_group().empty()) names.push_back(command->get_name());
    }
    if (const std::string meant = DidYouMean(arguments[0], names); !meant.empty()) {
      Say(fmt::format("{}: no such command.{} See holdfast --help.", arguments[0], meant));
    } else {
      Say(fmt::format("{}: no such command. The commands are {}; see holdfast --help.", arguments[0],
                      fmt::join(names, ", ")));
    }
  }
  return kWrongUsage;
}

// Accepts `holdfast help`, `holdfast help top` and `holdfast version`, as many tools do. Reports an unknown command
// instead of showing help.
std::vector<std::string> WithOptionsForWords(std::vector<std::string> arguments) {
  if (arguments.empty()) return arguments;
  if (arguments[0] == "--no-pager") {  // before the command, as git accepts it
    setenv("HOLDFAST_PAGER", "", 1);
    arguments.erase(arguments.begin());
    if (arguments.empty()) return arguments;
  }
  if (arguments[0] == "version") arguments[0] = "--version";
  if (arguments[0] != "help") return arguments;
  arguments.erase(arguments.begin());
  arguments.resize(std::min<size_t>(arguments.size(), 1));
  if (arguments.empty() || IsCommand(arguments[0])) arguments.emplace_back("--help");
  return arguments;
}

int Main(int argc, char** argv) {
  const std::vector<std::string> arguments = WithOptionsForWords({argv + (argc > 0 ? 1 : 0), argv + argc});
  const absl::StatusOr<std::string> own_path = OwnPath();
  const absl::StatusOr<std::string> file = own_path.ok() ? FindLibrary(*own_path) : own_path;
  // The only help that names the library.
  const bool is_help = arguments.empty() || arguments[0].starts_with("-");
  const absl::StatusOr<std::string> library = file.ok() && is_help ? PreloadableLibrary(*file) : file;
  CLI::App app(fmt::format(kTeaches, library.ok() ? *library : "…/libholdfast.so"), "holdfast");
  const auto formatter = std::make_shared<HelpFormatter>();
  formatter->label("Positionals", "Arguments");
  app.formatter(formatter);
  app.set_help_flag("-h,--help", "Print this help, or the help of a command");
  app.require_subcommand(1);
  app.set_version_flag("--version", "holdfast " HOLDFAST_VERSION, "Print the version");
  SetFilesOfProcess(SnapshotAndFilesOf);
  SetHeldFor(HeldInItsTableNs);
  if (WasPreloaded() && !arguments.empty() && arguments[0] != "run" && arguments[0] != "exporter") {
    const char* const folder = getenv("HOLDFAST_TABLES");
    const std::string tables = folder != nullptr && folder[0] == '/' ? folder : "/dev/shm";
    NoteReaderOfOutput(tables);
    CallBeforeOutput([tables] { NoteReaderOfOutput(tables); });
  }
  Invocation invocation;
  AddCommands(app, arguments, &invocation);

  std::vector<std::string> ours = arguments;
  if (!arguments.empty() && arguments[0] == "run") {
    const std::vector<std::string> behind(arguments.begin() + 1, arguments.end());
    ours.resize(1 + SplitProgram(*app.get_subcommand("run"), behind, &invocation.program));
  } else if (!arguments.empty() && arguments[0] == "doctor") {
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    ours.assign(arguments.begin(), dashes);
    if (dashes != arguments.end()) invocation.program.assign(dashes + 1, arguments.end());
  }
  try {
    app.parse(std::vector<std::string>(ours.rbegin(), ours.rend()));  // CLI11 takes arguments from the end of the list
  } catch (const CLI::Success& asked) {
    return Paged(true, [&](std::ostream& out) {
      std::ostringstream text;
      app.exit(asked, text, std::cerr);
      out << FittedHelp(text.str(), ScreenWidth());
      return kFine;
    });
  } catch (const CLI::ParseError& error) {
    return WrongUsage(app, arguments, error);
  }
  return invocation.exit_code;
}

}  // namespace
}  // namespace holdfast

// The loader calls this before any constructor.
__attribute__((section(".preinit_array"),
               used)) static void (*const leave_own_profile)(int, char**, char**) = holdfast::LeaveOwnProfile;

int main(int argc, char** argv) { return holdfast::Main(argc, argv); }
