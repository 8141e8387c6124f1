#include <memory>
#include <set>
#include <string>

#include "report/base/say.h"
#include "report/base/signals.h"
#include "report/cmd/commands.h"
#include "report/cmd/push_command.h"
#include "report/cmd/serving.h"
#include "report/daemon/sweep_tables.h"
#include "report/fleet/push/pusher.h"
#include "report/observe/table/table_folder.h"

namespace holdfast {
namespace {

struct AgentOptions {
  PushCommand push;
  ServeOptions serve;
};

absl::Status RunAgent(AgentOptions* options) {
  HeldSignals signals;  // before any thread starts, so that no thread receives these signals
  if (absl::Status status = TakePushOptions(&options->push); !status.ok()) return status;
  std::unique_ptr<Serving> serving;
  if (options->serve.listen != "no") {
    options->serve.what = options->push.what;
    options->serve.tables = options->push.tables;
    options->serve.token_option = "--listen-token-file";
    absl::StatusOr<std::unique_ptr<Serving>> started = Serving::Start(options->serve);
    if (!started.ok()) return started.status();
    serving = *std::move(started);
  }
  const auto sweep = [](const std::set<std::string>& folders) {
    for (const std::string& folder : folders) SweepOldTables(folder);
  };
  if (!options->push.push.server.url.empty()) {
    options->push.push.sweep = sweep;
    return Push(options->push.push, signals);
  }
  do {
    std::set<std::string> folders(options->push.tables.begin(), options->push.tables.end());
    if (folders.empty()) {
      for (const std::string& folder : DefaultTableFolders()) folders.insert(folder);
    }
    sweep(folders);
  } while (!signals.AskedToEnd(600 * 1000));
  return absl::OkStatus();
}

}  // namespace

void AddAgentCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<AgentOptions>();
  CLI::App* agent = app.add_subcommand("agent", "Push, serve and sweep for all programs of this user, as a service");
  agent->footer(
      "One process per machine or pod: does what `push` and `serve` do, and deletes the files that killed programs and\n"
      "exporters left in the folders of tables.\n"
      "\n"
      "  holdfast agent http://pyroscope:4040 --tenant shop       and http://127.0.0.1:6060 answers\n"
      "  holdfast agent --listen unix:/run/user/1000/holdfast.sock   serves and sweeps, pushes nothing\n"
      "  holdfast agent http://pyroscope:4040 --listen no\n"
      "\n"
      "See docs/fleet.md for a unit file, and for the cost with a thousand processes.");
  agent->add_option("URL", options->push.push.server.url, "The server to send profiles to [default: none]");
  agent->add_option("PID|DIR", options->push.what,
                    "Process ids, or output folders of processes [default: all processes of this user]");
  agent->add_option("--listen", options->serve.listen, "HOST:PORT or unix:PATH to listen on; no: do not serve")
      ->capture_default_str();
  agent->add_option("--listen-token-file", options->serve.token_file,
                    "Require the token in this file (needed if other machines can connect)");
  CLI::Option* certificate =
      agent->add_option("--listen-cert", options->serve.certificate, "Serve TLS with this certificate chain (PEM)");
  agent
      ->add_option("--listen-key", options->serve.key,
                   "The private key of the certificate (PEM) [default: in the same file]")
      ->needs(certificate);
  agent
      ->add_option("--listen-host", options->serve.hosts,
                   "Another host name of this server, besides addresses and localhost (repeatable)")
      ->allow_extra_args(false);
  AddPushOptions(agent, &options->push);
  agent->callback([options, invocation] {
    const absl::Status status = RunAgent(options.get());
    invocation->exit_code = status.ok() ? kFine : Failed(status);
  });
}

}  // namespace holdfast
