#include "report/cmd/serving.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <stop_token>
#include <utility>

#include "fmt/format.h"
#include "report/base/file_descriptor.h"
#include "report/base/printable.h"
#include "report/base/say.h"
#include "report/show/live_holders.h"
#include "report/show/observed_process.h"

namespace holdfast {
namespace {

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

}  // namespace

absl::StatusOr<std::unique_ptr<Serving>> Serving::Start(const ServeOptions& options) {
  if (const absl::StatusOr<ScanBudget> budget = BudgetFor(options.scan_memory); !budget.ok()) return budget.status();
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
  if (server.key.empty()) server.key = server.certificate;  // one file holds both
  absl::StatusOr<Listener> listener = Listen(options.listen);
  if (!listener.ok()) return listener.status();
  if (!listener->is_loopback && server.rules.token.empty()) {
    return absl::InvalidArgumentError(fmt::format(
        "{}: other machines can reach this address. Require a token with {}, or listen on 127.0.0.1 or unix:PATH.",
        options.listen, options.token_option));
  }
  server.rules.check_host = !listener->is_unix;
  server.rules.hosts = options.hosts;
  if (!listener->host.empty()) server.rules.hosts.push_back(listener->host);
  server.rules.tls = !server.certificate.empty();
  server.rules.takes_post = LiveService::TakesPost;
  const std::string address = listener->address;
  const bool is_unix = listener->is_unix;
  const bool tls = server.rules.tls;
  const std::string not_served = UnservedUsers(*choice);
  FindHolders find_holders = [tables = options.tables, memory = options.scan_memory](pid_t pid, const auto& progress,
                                                                                     std::stop_token stop) {
    return SearchHolders(pid, tables, memory, progress, std::move(stop));
  };
  std::unique_ptr<Serving> serving(new Serving(*std::move(choice), address, std::move(find_holders)));
  server.handler = [service = &serving->service_](const HttpRequest& request) { return service->Answer(request); };
  absl::StatusOr<std::unique_ptr<HttpServer>> running = HttpServer::Start(*std::move(listener), std::move(server));
  if (!running.ok()) return running.status();
  serving->server_ = *std::move(running);
  if (!not_served.empty()) Say(not_served + ".");
  SayLines(fmt::format("listening on {}{}\n", is_unix ? "" : tls ? "https://" : "http://", address));
  return serving;
}

}  // namespace holdfast
