// An HTTP server with one thread per connection, so that a handler may wait (`seconds=30`). Every resource that a
// client can use is limited.
//
//   connections at once   kMaxConnections; further ones are closed. No client can keep one without making progress:
//   a request             must arrive completely within kRequestTime of the connection, or of the previous answer
//   its header            at most kMaxHeaderBytes, its body kMaxBodyBytes
//   an answer             must be read within kAnswerTime
//   handlers that wait    kMaxWaiting at once; the other connections remain free for immediate answers
// A handler runs in the thread of its connection, several at a time. An exception in a handler gives a 500.
#ifndef HOLDFAST_REPORT_HTTP_HTTP_SERVER_H_
#define HOLDFAST_REPORT_HTTP_HTTP_SERVER_H_

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "report/http/admission.h"
#include "report/http/http_message.h"
#include "report/http/listen_address.h"

struct MHD_Daemon;  // of libmicrohttpd

namespace holdfast {

class HttpServer {
 public:
  static constexpr unsigned kMaxConnections = 64, kMaxWaiting = 32;
  static constexpr std::chrono::seconds kRequestTime{10}, kAnswerTime{120};
  static constexpr size_t kMaxHeaderBytes = 32 << 10, kMaxBodyBytes = 1 << 20;

  struct Options {
    AdmissionRules rules;
    std::string certificate, key;  // PEM; "" = no TLS
    std::function<HttpResponse(const HttpRequest&)> handler;
  };

  // Accepts requests from now on. An error has a complete message.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Listener listener, Options options);
  // Ends the waits of handlers, and joins all handlers.
  ~HttpServer();

 private:
  class Connections;
  friend struct HttpCallbacks;
  HttpServer() = default;

  Listener listener_;
  Options options_;
  std::unique_ptr<Connections> connections_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_HTTP_SERVER_H_
