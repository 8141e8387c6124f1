#include <memory>
#include <string>

#include "report/base/say.h"
#include "report/base/signals.h"
#include "report/commands/commands.h"
#include "report/fleet_commands/serving.h"

namespace holdfast {
namespace {

absl::Status Serve(const ServeOptions& options) {
  HeldSignals signals;  // before any thread starts, so that no thread receives these signals
  const absl::StatusOr<std::unique_ptr<Serving>> serving = Serving::Start(options);
  if (!serving.ok()) return serving.status();
  while (!signals.AskedToEnd(3600 * 1000)) {
  }
  return absl::OkStatus();
}

}  // namespace

void AddServeCommand(CLI::App& app, Invocation* invocation) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* serve = app.add_subcommand("serve", "Answer at /debug/pprof as a Go program does, for running programs");
  serve->footer(
      "A server beside the programs, for all that this user has running under the library, or for those named. It reads\n"
      "their tables when somebody asks; the programs take no part in it.\n"
      "\n"
      "  holdfast serve                                               http://127.0.0.1:6060/ in a browser: live\n"
      "  go tool pprof http://127.0.0.1:6060/debug/pprof/heap         of the only one; else add ?pid=4242\n"
      "  go tool pprof http://127.0.0.1:6060/p/4242/debug/pprof/mutex?seconds=5\n"
      "  holdfast serve --listen unix:/run/user/1000/holdfast.sock    for this user alone\n"
      "\n"
      "/metrics is for Prometheus, /targets for its HTTP service discovery. Everybody on this machine can ask a port of\n"
      "127.0.0.1; a token or a unix socket keeps others out. See docs/fleet.md.");
  serve->add_option("PID|DIR", options->what,
                    "Processes, and output folders whose processes are meant [default: all of this user]");
  serve->add_option("--listen", options->listen, "HOST:PORT or unix:PATH; port 0 takes a free one")
      ->capture_default_str();
  serve->add_option("--token-file", options->token_file,
                    "Ask for the token in this file (Bearer, or the password of Basic); needed beyond this machine");
  CLI::Option* certificate = serve->add_option("--cert", options->certificate, "TLS with this certificate chain (PEM)");
  serve->add_option("--key", options->key, "Its private key (PEM) [default: in the same file]")->needs(certificate);
  serve
      ->add_option("--host", options->hosts,
                   "A name by which this server may be reached, beside addresses and localhost")
      ->allow_extra_args(false);
  serve->add_option("--tables", options->tables, "Folder of table files to look into [default: all that are in use]")
      ->allow_extra_args(false);
  serve->callback([options, invocation] {
    const absl::Status status = Serve(*options);
    invocation->exit_code = status.ok() ? kFine : Failed(status);
  });
}

}  // namespace holdfast
