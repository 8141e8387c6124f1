// A client for one server that accepts profiles: its address, our credentials, and one request at a time.
//
// The connection is kept between requests. Proxies come from the environment (https_proxy, no_proxy …), as in curl, or
// from an option. This class never retries; see report/fleet/push/sender.h.
#ifndef HOLDFAST_REPORT_FLEET_PUSH_PUSH_CLIENT_H_
#define HOLDFAST_REPORT_FLEET_PUSH_PUSH_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "report/fleet/push/curl.h"
#include "report/fleet/push/push_entry.h"

namespace holdfast {

struct ServerOptions {
  std::string url;        // http://host:4040, optionally with a path before the API's
  std::string tenant;     // X-Scope-OrgID
  std::string user_file;  // its first line is NAME:PASSWORD (basic authentication)
  // Its first line is a bearer token. Both files are read again for each request, because they may change.
  std::string token_file;
  std::string ca_file, certificate, key, proxy;
  int timeout_s = 30;
};

// Validates a URL such as "http://localhost:4040/". Drops a '/' at the end of the path, and user and password. An error
// says what a URL looks like.
absl::StatusOr<std::string> CheckedUrl(std::string_view url);

// The server's answer, or why there is none.
struct Reply {
  int status = 0;          // 0: no answer
  int retry_after_s = -1;  // -1: not stated
  int64_t date_s = 0;      // by the server's clock; 0: not stated
  std::string text;        // the beginning of the body; without an answer: what went wrong
  bool left_us = false;    // bytes were sent: without an answer, the request may have arrived
};

class PushClient {
 public:
  // An error has a complete message.
  static absl::StatusOr<std::unique_ptr<PushClient>> Make(const ServerOptions& options);
  ~PushClient();
  PushClient(const PushClient&) = delete;

  // Sends a request. Aborts as soon as `stop` is true.
  Reply Post(const PushRequest& request, const std::atomic<bool>& stop);

  const ServerOptions& options() const { return options_; }

 private:
  PushClient(const Curl* curl, const ServerOptions& options) : curl_(curl), options_(options) {}

  const Curl* const curl_;
  const ServerOptions options_;
  CURL* handle_ = nullptr;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_PUSH_CLIENT_H_
