// One server that takes profiles: where it is, how it knows us, and one request at a time to it.
//
// The connection is kept from one request to the next. Proxies are taken from the environment (https_proxy, no_proxy …) as
// curl does, or named. Nothing here tries again; see report/push/sender.h.
#ifndef HOLDFAST_REPORT_PUSH_PUSH_CLIENT_H_
#define HOLDFAST_REPORT_PUSH_PUSH_CLIENT_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "report/push/curl.h"
#include "report/push/push_entry.h"

namespace holdfast {

struct ServerOptions {
  std::string url;         // http://host:4040, also with a path before the API's
  std::string tenant;      // X-Scope-OrgID
  std::string user_file;   // whose first line is NAME:PASSWORD (basic authentication)
  std::string token_file;  // whose first line is a bearer token. Both are read again for each request: they change
  std::string ca_file, certificate, key, proxy;
  int timeout_s = 30;
};

// "http://localhost:4040/": neither its path's last '/' nor user and password. An error says what a URL looks like.
absl::StatusOr<std::string> CheckedUrl(std::string_view url);

// What came back, or why nothing did.
struct Reply {
  int status = 0;          // 0: no answer
  int retry_after_s = -1;  // -1: it said nothing
  int64_t date_s = 0;      // by the server's clock; 0: it said nothing
  std::string text;        // of the body: the beginning; without an answer: what went wrong
  bool left_us = false;    // any of the request: without an answer nobody knows whether it arrived
};

class PushClient {
 public:
  // The message of an error is complete.
  static absl::StatusOr<std::unique_ptr<PushClient>> Make(const ServerOptions& options);
  ~PushClient();
  PushClient(const PushClient&) = delete;

  // As soon as `stop` is true it is broken off.
  Reply Post(const PushRequest& request, const std::atomic<bool>& stop);

  const ServerOptions& options() const { return options_; }

 private:
  PushClient(const Curl* curl, const ServerOptions& options) : curl_(curl), options_(options) {}

  const Curl* const curl_;
  const ServerOptions options_;
  CURL* handle_ = nullptr;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_PUSH_CLIENT_H_
