#include "report/http/listen_address.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "fmt/format.h"
#include "report/base/printable.h"

namespace holdfast {
namespace {

constexpr int kBacklog = 64;
constexpr char kForms[] = "use HOST:PORT, [IPV6]:PORT, :PORT or unix:PATH";

absl::Status CannotListen(const std::string& address, const char* why) {
  return absl::FailedPreconditionError(
      fmt::format("{}: cannot listen ({}). Name another address with --listen.", Printable(address), why));
}

// Removes a socket that a dead server has left, and nothing else.
bool RemoveLeftSocket(const sockaddr_un& address) {
  struct stat info;
  if (lstat(address.sun_path, &info) != 0 || !S_ISSOCK(info.st_mode) || info.st_uid != geteuid()) return false;
  const FileDescriptor probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno != ECONNREFUSED) {
    return false;
  }
  return unlink(address.sun_path) == 0;
}

absl::StatusOr<Listener> ListenAtPath(const std::string& text, const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        fmt::format("{}: not a valid path of a socket (1 to {} bytes).", Printable(text), sizeof address.sun_path - 1));
  }
  memcpy(address.sun_path, path.c_str(), path.size());
  FileDescriptor made(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  const mode_t before = umask(0177);  // nobody else may connect, not even for a moment
  int bound = bind(made.get(), generic, sizeof address);
  if (bound != 0 && errno == EADDRINUSE && RemoveLeftSocket(address)) bound = bind(made.get(), generic, sizeof address);
  const int error = errno;
  umask(before);
  if (bound != 0) return CannotListen(text, strerror(error));
  if (listen(made.get(), kBacklog) != 0) return CannotListen(text, strerror(errno));
  return Listener{
      .socket = std::move(made), .address = "unix:" + path, .host = "", .is_unix = true, .is_loopback = true};
}

bool IsLoopback(const sockaddr* address) {
  if (address->sa_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
  }
  return address->sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
}

std::string AddressText(const sockaddr* address, socklen_t length) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(address, length, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "";
  return address->sa_family == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

}  // namespace

absl::StatusOr<Listener> Listen(const std::string& text) {
  constexpr std::string_view kUnix = "unix:";
  if (text.starts_with(kUnix)) return ListenAtPath(text, text.substr(kUnix.size()));
  const size_t colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? "" : text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(port) > 65535) {
    return absl::InvalidArgumentError(fmt::format("\"{}\": not an address to listen on: {}.", Printable(text), kForms));
  }
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  if (const int error = getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list); error != 0) {
    return CannotListen(text, gai_strerror(error));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(list, freeaddrinfo);
  int error = 0;
  for (const addrinfo* one = list; one != nullptr; one = one->ai_next) {
    FileDescriptor made(socket(one->ai_family, one->ai_socktype | SOCK_CLOEXEC, one->ai_protocol));
    const int on = 1;
    setsockopt(made.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (!made.valid() || bind(made.get(), one->ai_addr, one->ai_addrlen) != 0 || listen(made.get(), kBacklog) != 0) {
      error = errno;
      continue;
    }
    sockaddr_storage got;
    socklen_t length = sizeof got;
    getsockname(made.get(), reinterpret_cast<sockaddr*>(&got), &length);
    const auto* address = reinterpret_cast<const sockaddr*>(&got);
    return Listener{.socket = std::move(made),
                    .address = AddressText(address, length),
                    .host = host,
                    .is_unix = false,
                    .is_loopback = IsLoopback(address)};
  }
  return CannotListen(text, strerror(error));
}

}  // namespace holdfast
