// The address at which a server listens: `127.0.0.1:6060`, `[::1]:6060`, `localhost:6060`, `:6060` (every address of the machine),
// `unix:/run/user/1000/holdfast.sock`. Port 0: any free port.
#ifndef HOLDFAST_REPORT_HTTP_LISTEN_ADDRESS_H_
#define HOLDFAST_REPORT_HTTP_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

struct Listener {
  FileDescriptor socket;
  std::string address;  // as in a URL, with the actual port: "127.0.0.1:6060"; "unix:/run/x.sock"
  std::string host;     // as given: "127.0.0.1", "box.example"; "" for a unix socket or if none was given
  bool is_unix = false;
  bool is_loopback = false;  // only this machine can connect
};

// A unix socket is accessible to this user only (0600). It replaces an existing file only if that is a socket of this
// user without a server. An error has a complete message.
absl::StatusOr<Listener> Listen(const std::string& address);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_LISTEN_ADDRESS_H_
