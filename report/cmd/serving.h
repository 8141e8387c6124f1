// A server for profiled programs, shared by `serve` and `agent`.
#ifndef HOLDFAST_REPORT_CMD_SERVING_H_
#define HOLDFAST_REPORT_CMD_SERVING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "report/fleet/serve/live_service.h"
#include "report/http/http_server.h"

namespace holdfast {

struct ServeOptions {
  std::string listen = "127.0.0.1:6060", token_file, certificate, key;
  std::vector<std::string> hosts, what, tables;
  std::string scan_memory;                    // of a search for holders; "" = half of the free memory
  const char* token_option = "--token-file";  // the name of the option, for messages
};

class Serving {
 public:
  // Returns once the server accepts connections and the line "listening on http://…" has been printed. An error has a
  // complete message.
  static absl::StatusOr<std::unique_ptr<Serving>> Start(const ServeOptions& options);

 private:
  Serving(ProcessChoice choice, const std::string& address, FindHolders find_holders)
      : service_(std::move(choice), address, std::move(find_holders)) {}

  LiveService service_;
  std::unique_ptr<HttpServer> server_;  // last member: it uses the service
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_CMD_SERVING_H_
