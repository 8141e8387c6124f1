#include <memory>
#include <string>

#include "report/base/say.h"
#include "report/base/signals.h"
#include "report/cmd/commands.h"
#include "report/cmd/serving.h"

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
  CLI::App* serve =
      app.add_subcommand("serve", "Serve a live page and /debug/pprof (as Go programs do) for running programs");
  serve->footer(
      "Runs as a separate process, for all profiled processes of this user or for the given ones. It reads their tables for\n"
      "each request and, where wall is on, looks at their threads 20 times a second from the first request on; the programs\n"
      "themselves do nothing.\n"
      "\n"
      "  holdfast serve                                               live page: http://127.0.0.1:6060/\n"
      "  go tool pprof http://127.0.0.1:6060/debug/pprof/heap         with several programs: add ?pid=4242\n"
      "  go tool pprof http://127.0.0.1:6060/p/4242/debug/pprof/mutex?seconds=5\n"
      "  holdfast serve --listen unix:/run/user/1000/holdfast.sock    only for this user\n"
      "\n"
      "/metrics is for Prometheus, /targets for its HTTP service discovery. Every user of this machine can connect to\n"
      "127.0.0.1; a token or a unix socket keeps others out. See docs/fleet.md.");
  serve->add_option("PID|DIR", options->what,
                    "Process ids, or output folders of processes [default: all processes of this user]");
  serve->add_option("--listen", options->listen, "HOST:PORT or unix:PATH to listen on; port 0: any free port")
      ->capture_default_str();
  serve->add_option(
      "--token-file", options->token_file,
      "Require the token in this file, as Bearer or as the password of Basic (needed if other machines can connect)");
  CLI::Option* certificate =
      serve->add_option("--cert", options->certificate, "Serve TLS with this certificate chain (PEM)");
  serve->add_option("--key", options->key, "The private key of the certificate (PEM) [default: in the same file]")
      ->needs(certificate);
  serve
      ->add_option("--host", options->hosts,
                   "Another host name of this server, besides addresses and localhost (repeatable)")
      ->allow_extra_args(false);
  serve
      ->add_option(
          "--scan-memory", options->scan_memory,
          "Use at most this much memory if a viewer of the live page asks what holds a program's memory [default: "
          "half of what is free]")
      ->type_name("SIZE");
  serve->add_option("--tables", options->tables, "The folder of the table files [default: all that are in use]")
      ->allow_extra_args(false);
  serve->callback([options, invocation] {
    const absl::Status status = Serve(*options);
    invocation->exit_code = status.ok() ? kFine : Failed(status);
  });
}

}  // namespace holdfast
