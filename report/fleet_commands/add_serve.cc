#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/base/signals.h"
#include "report/commands/commands.h"
#include "report/http/http_server.h"
#include "report/serve/live_service.h"

namespace holdfast {
namespace {

struct ServeOptions {
  std::string listen = "127.0.0.1:6060", token_file, certificate, key;
  std::vector<std::string> hosts, what, tables;
};

absl::StatusOr<std::string> ReadPem(const std::string& path) {
  const FileDescriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(1 << 20, '\0');
  const ssize_t got = file.valid() ? read(file.get(), text.data(), text.size()) : -1;
  if (got <= 0) {
    return absl::NotFoundError(
        fmt::format("{}: cannot be read ({}).", Printable(path), got < 0 ? strerror(errno) : "it is empty"));
  }
  text.resize(static_cast<size_t>(got));
  return text;
}

absl::Status Serve(const ServeOptions& options) {
  HeldSignals signals;  // before there are threads: none of them takes one
  absl::StatusOr<ProcessChoice> choice = ChooseProcesses(options.what, options.tables);
  if (!choice.ok()) return choice.status();
  HttpServer::Options server;
  if (!options.token_file.empty()) {
    absl::StatusOr<std::string> token = ReadTokenFile(options.token_file);
    if (!token.ok()) return token.status();
    server.rules.token = *std::move(token);
  }
  for (const auto& [path, text] : {std::pair(&options.certificate, &server.certificate), {&options.key, &server.key}}) {
    if (path->empty()) continue;
    absl::StatusOr<std::string> pem = ReadPem(*path);
    if (!pem.ok()) return pem.status();
    *text = *std::move(pem);
  }
  if (server.key.empty()) server.key = server.certificate;  // both in one file
  absl::StatusOr<Listener> listener = Listen(options.listen);
  if (!listener.ok()) return listener.status();
  if (!listener->is_loopback && server.rules.token.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: others than this machine reach this address, and profiles are not for everybody. Name a token by "
        "--token-file, or listen at 127.0.0.1 or unix:PATH.",
        options.listen));
  }
  server.rules.check_host = !listener->is_unix;
  server.rules.hosts = options.hosts;
  if (!listener->host.empty()) server.rules.hosts.push_back(listener->host);
  server.rules.tls = !server.certificate.empty();
  server.rules.takes_post = LiveService::TakesPost;
  const std::string address = listener->address;
  const bool is_unix = listener->is_unix;
  LiveService service(*std::move(choice), address);
  server.handler = [&service](const HttpRequest& request) { return service.Answer(request); };
  const bool tls = server.rules.tls;
  const absl::StatusOr<std::unique_ptr<HttpServer>> running =
      HttpServer::Start(*std::move(listener), std::move(server));
  if (!running.ok()) return running.status();
  SayLines(fmt::format("listening on {}{}\n", is_unix ? "" : tls ? "https://" : "http://", address));
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
      "  holdfast serve                                               http://127.0.0.1:6060/ lists them\n"
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
