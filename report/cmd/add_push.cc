#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "report/base/file_descriptor.h"
#include "report/base/say.h"
#include "report/base/signals.h"
#include "report/cmd/commands.h"
#include "report/cmd/push_command.h"
#include "report/fleet/push/pusher.h"
#include "report/observe/table/folder_owner.h"

namespace holdfast {
namespace {

// Logs to a file, because nobody reads the standard error of a pusher that an exporter has started.
void LogInto(const std::string& out) {
  constexpr off_t kMaxBytes = 64 << 10;
  const std::string folder = out + "/.push";
  if (MakeFolders(folder) != 0) return;
  const FileDescriptor log(
      open((folder + "/log").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  struct stat info;
  if (!log.valid() || fstat(log.get(), &info) != 0) return;
  if (info.st_size > kMaxBytes && ftruncate(log.get(), 0) != 0) return;
  dup2(log.get(), STDERR_FILENO);
}

absl::Status PushNow(PushCommand* command) {
  HeldSignals signals;  // before any thread starts, so that no thread receives these signals
  if (absl::Status status = TakePushOptions(command); !status.ok()) return status;
  if (command->push.follow && !command->push.choice.outs.empty()) LogInto(command->push.choice.outs[0]);
  return Push(command->push, signals);
}

}  // namespace

void AddPushCommand(CLI::App& app, Invocation* invocation) {
  auto command = std::make_shared<PushCommand>();
  CLI::App* push = app.add_subcommand("push", "Send profiles of running programs to Pyroscope or OpenTelemetry");
  push->footer(
      "Runs as a separate process, for all profiled processes of this user or for the given ones. It sends the current memory\n"
      "in use, and the allocations, contentions and delays since the last time; CPU time and the time of threads if on (it then\n"
      "looks at the threads itself, at the exporter's cost once more).\n"
      "\n"
      "  holdfast push http://localhost:4040\n"
      "  holdfast push https://profiles.example.org --tenant shop --token-file /etc/holdfast/token 4242\n"
      "  holdfast push http://localhost:4040 /var/tmp/profiles      programs that write to this folder; also sends what waits there\n"
      "  holdfast push http://localhost:4318 --to otlp              an OpenTelemetry Collector\n"
      "\n"
      "While the server is unreachable, profiles wait in .push in the programs' output folders, within --max-disk, and are sent\n"
      "later in order, even by another `holdfast push`. Pyroscope accepts none that are older than an hour. Profiles that it\n"
      "rejects are set aside there.\n"
      "\n"
      "Labels: service_name, program, host, pid, version or build_id; container, pod, namespace and node if known.\n"
      "Proxies are taken from the environment (https_proxy, no_proxy). See docs/fleet.md.");
  push->add_option("URL", command->push.server.url, "The server, such as http://localhost:4040")->required();
  push->add_option("PID|DIR", command->what,
                   "Process ids, or output folders of processes [default: all processes of this user]");
  AddPushOptions(push, command.get());
  push->add_flag("--once", command->push.once, "Send the current profiles once, then exit");
  push->add_flag("--follow", command->push.follow)->group("");  // set by an exporter; our standard input is its pipe
  push->callback([command, invocation] {
    const absl::Status status = PushNow(command.get());
    invocation->exit_code = status.ok() ? kFine : Failed(status);
  });
}

}  // namespace holdfast
