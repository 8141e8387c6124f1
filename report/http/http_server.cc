#include "report/http/http_server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "fmt/format.h"
#include "report/http/connections.h"
#include "report/http/microhttpd.h"

namespace holdfast {

// The callbacks of libmicrohttpd. `closure`: the server.
struct HttpCallbacks {
  using Connection = HttpServer::Connections::Connection;

  // One request.
  struct Exchange {
    HttpRequest request;
    bool well_formed = false;
    bool admitted = false;
    bool too_large = false;
  };

  static const Microhttpd& Http() { return **Microhttpd::Load(); }

  static Connection* ConnectionOf(MHD_Connection* connection) {
    return static_cast<Connection*>(
        Http().get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context);
  }

  static void Notify(void* closure, MHD_Connection* connection, void** context, MHD_ConnectionNotificationCode code) {
    auto* server = static_cast<HttpServer*>(closure);
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
      const int socket = Http().get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
      if (server->listener_.is_unix) RefuseOtherUsers(socket);
      *context = server->connections_->Add(socket);
    } else if (*context != nullptr) {
      server->connections_->Remove(static_cast<Connection*>(*context));
      *context = nullptr;
    }
  }

  // Refuses clients of other users. The file's mode already does this, but an ACL of the folder might allow them.
  static void RefuseOtherUsers(int socket) {
    ucred peer;
    socklen_t length = sizeof peer;
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 && (peer.uid == geteuid() || peer.uid == 0))
      return;
    shutdown(socket, SHUT_RDWR);
  }

  static void* Begin(void*, const char* target, MHD_Connection*) {
    auto* exchange = new Exchange;
    exchange->well_formed = ParseTarget(target, &exchange->request);
    return exchange;
  }

  static void End(void* closure, MHD_Connection* connection, void** context, MHD_RequestTerminationCode) {
    delete static_cast<Exchange*>(std::exchange(*context, nullptr));
    auto* server = static_cast<HttpServer*>(closure);
    if (Connection* open = ConnectionOf(connection); open != nullptr) {
      server->connections_->Allow(open, HttpServer::kRequestTime);  // for the next one
    }
  }

  static MHD_Result Answer(HttpServer* server, MHD_Connection* connection, const HttpResponse& response) {
    const Microhttpd& http = Http();
    MHD_Response* made = http.create_response_from_buffer(response.body.size(), const_cast<char*>(response.body.data()),
                                                          MHD_RESPMEM_MUST_COPY);
    if (made == nullptr) return MHD_NO;
    http.add_response_header(made, "Content-Type", response.content_type.c_str());
    http.add_response_header(made, "Cross-Origin-Resource-Policy", "same-origin");
    for (const auto& [name, value] : response.fields) http.add_response_header(made, name.c_str(), value.c_str());
    server->connections_->Allow(ConnectionOf(connection), HttpServer::kAnswerTime);
    const MHD_Result result = http.queue_response(connection, static_cast<unsigned>(response.status), made);
    http.destroy_response(made);
    return result;
  }

  static MHD_Result Process(HttpServer* server, MHD_Connection* connection, Exchange* exchange, const char* method,
                            const char* upload, size_t* upload_size) {
    const auto field = [&](const char* name) -> std::string_view {
      const char* value = Http().lookup_connection_value(connection, MHD_HEADER_KIND, name);
      return value != nullptr ? value : "";
    };
    HttpRequest& request = exchange->request;
    if (!exchange->admitted) {  // the header is complete
      const auto refuse = [&](HttpResponse response) { return Answer(server, connection, std::move(response)); };
      request.method = method;
      if (!exchange->well_formed) return refuse({.status = 400, .body = "400 Bad Request\n"});
      if (std::optional<HttpResponse> refusal = Refusal(server->options_.rules, request, field))
        return refuse(*std::move(refusal));
      uint64_t length = 0;
      if (absl::SimpleAtoi(std::string(field("Content-Length")), &length) && length > HttpServer::kMaxBodyBytes) {
        return refuse({.status = 413, .body = "413 Request Entity Too Large\n"});
      }
      request.host = field("Host");
      request.accept = field("Accept");
      exchange->admitted = true;
      return MHD_YES;
    }
    if (*upload_size != 0) {
      exchange->too_large = exchange->too_large || request.body.size() + *upload_size > HttpServer::kMaxBodyBytes;
      if (!exchange->too_large) request.body.append(upload, *upload_size);
      *upload_size = 0;
      return MHD_YES;
    }
    if (exchange->too_large) {
      return Answer(server, connection, {.status = 413, .body = "413 Request Entity Too Large\n"});
    }
    auto* open = ConnectionOf(connection);
    server->connections_->Allow(open, {});
    request.wait = [server, open](int64_t seconds) {
      return server->connections_->Wait(*open, std::chrono::seconds(seconds));
    };
    return Answer(server, connection, server->options_.handler(request));
  }

  static MHD_Result Handle(void* closure, MHD_Connection* connection, const char*, const char* method, const char*,
                           const char* upload, size_t* upload_size, void** context) {
    auto* server = static_cast<HttpServer*>(closure);
    auto* exchange = static_cast<Exchange*>(*context);
    if (exchange == nullptr) return MHD_NO;
    try {
      return Process(server, connection, exchange, method, upload, upload_size);
    } catch (const std::exception& problem) {
      return Answer(server, connection, {.status = 500, .body = fmt::format("{}\n", problem.what())});
    }
  }
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(Listener listener, Options options) {
  const absl::StatusOr<const Microhttpd*> http = Microhttpd::Load(!options.certificate.empty());
  if (!http.ok()) return http.status();
  signal(SIGPIPE, SIG_IGN);  // the TLS library writes to clients that have gone
  std::unique_ptr<HttpServer> server(new HttpServer);
  server->listener_ = std::move(listener);
  server->options_ = std::move(options);
  server->connections_ = std::make_unique<Connections>();
  const Options& kept = server->options_;
  std::vector<MHD_OptionItem> items = {
      {MHD_OPTION_LISTEN_SOCKET, fcntl(server->listener_.socket.get(), F_DUPFD_CLOEXEC, 0), nullptr},  // it closes it
      {MHD_OPTION_CONNECTION_LIMIT, kMaxConnections, nullptr},
      {MHD_OPTION_CONNECTION_MEMORY_LIMIT, kMaxHeaderBytes, nullptr},
      {MHD_OPTION_STRICT_FOR_CLIENT, 1, nullptr},
      {MHD_OPTION_NOTIFY_COMPLETED, reinterpret_cast<intptr_t>(&HttpCallbacks::End), server.get()},
      {MHD_OPTION_NOTIFY_CONNECTION, reinterpret_cast<intptr_t>(&HttpCallbacks::Notify), server.get()},
      {MHD_OPTION_URI_LOG_CALLBACK, reinterpret_cast<intptr_t>(&HttpCallbacks::Begin), server.get()},
  };
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL;
  if (!kept.certificate.empty()) {
    if ((*http)->is_feature_supported(MHD_FEATURE_TLS) != MHD_YES) {
      return absl::UnavailableError(
          "the installed libmicrohttpd does not support TLS. Install another build, or leave out --cert.");
    }
    flags |= MHD_USE_TLS;
    items.push_back({MHD_OPTION_HTTPS_MEM_CERT, 0, const_cast<char*>(kept.certificate.c_str())});
    items.push_back({MHD_OPTION_HTTPS_MEM_KEY, 0, const_cast<char*>(kept.key.c_str())});
  }
  items.push_back({MHD_OPTION_END, 0, nullptr});
  server->daemon_ = (*http)->start_daemon(flags, 0, nullptr, nullptr, &HttpCallbacks::Handle, server.get(),
                                          MHD_OPTION_ARRAY, items.data(), MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    return absl::UnavailableError(
        kept.certificate.empty()
            ? fmt::format("{}: cannot start the server ({}).", server->listener_.address, strerror(errno))
            : "cannot start the server. Check that --cert and --key are a certificate and its private key, in PEM.");
  }
  return server;
}

HttpServer::~HttpServer() {
  if (connections_ != nullptr) connections_->Stop();
  if (daemon_ != nullptr) (*Microhttpd::Load())->stop_daemon(daemon_);
  if (listener_.is_unix && listener_.socket.valid()) unlink(listener_.address.substr(strlen("unix:")).c_str());
}

}  // namespace holdfast
