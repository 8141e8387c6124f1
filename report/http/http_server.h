// The server: a thread for each connection, so that a handler may wait (`seconds=30`); everything about a client is bounded.
//
//   connections at once   kMostConnections; what comes beyond is closed. No client keeps one without making progress:
//   a request             has come, whole, within kRequestTime of the connection, or of the answer before it
//   its header            at most kMostHeaderBytes, its body kMostBodyBytes
//   an answer             is taken within kAnswerTime
//   handlers that wait    kMostWaiting at once: the other connections stay free for who wants an answer now
// A handler runs in the thread of its connection, several at a time. What it throws is a 500.
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
  static constexpr unsigned kMostConnections = 64, kMostWaiting = 32;
  static constexpr std::chrono::seconds kRequestTime{10}, kAnswerTime{120};
  static constexpr size_t kMostHeaderBytes = 32 << 10, kMostBodyBytes = 1 << 20;

  struct Options {
    AdmissionRules rules;
    std::string certificate, key;  // PEM; "" = no TLS
    std::function<HttpResponse(const HttpRequest&)> handler;
  };

  // Answers from here on. The message of an error is complete.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(Listener listener, Options options);
  // Waiting handlers are told, and the others waited for.
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
