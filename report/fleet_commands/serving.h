// A server for programs: what `serve` and `agent` have in common.
#ifndef HOLDFAST_REPORT_FLEET_COMMANDS_SERVING_H_
#define HOLDFAST_REPORT_FLEET_COMMANDS_SERVING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/http/http_server.h"
#include "report/serve/live_service.h"

namespace holdfast {

struct ServeOptions {
  std::string listen = "127.0.0.1:6060", token_file, certificate, key;
  std::vector<std::string> hosts, what, tables;
  const char* token_option = "--token-file";  // as it is called, for messages
};

class Serving {
 public:
  // It answers once this is back, and has been said: "listening on http://…". The message of an error is complete.
  static absl::StatusOr<std::unique_ptr<Serving>> Start(const ServeOptions& options);

 private:
  Serving(ProcessChoice choice, const std::string& address) : service_(std::move(choice), address) {}

  LiveService service_;
  std::unique_ptr<HttpServer> server_;  // last: it uses the service
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_COMMANDS_SERVING_H_
