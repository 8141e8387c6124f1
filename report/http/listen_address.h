// Where a server listens: `127.0.0.1:6060`, `[::1]:6060`, `localhost:6060`, `:6060` (every address of the machine),
// `unix:/run/user/1000/holdfast.sock`. Port 0: one that is free.
#ifndef HOLDFAST_REPORT_HTTP_LISTEN_ADDRESS_H_
#define HOLDFAST_REPORT_HTTP_LISTEN_ADDRESS_H_

#include <string>

#include "absl/status/statusor.h"
#include "report/base/file_descriptor.h"

namespace holdfast {

struct Listener {
  FileDescriptor socket;
  std::string address;  // as a URL has it, with the port that was got: "127.0.0.1:6060"; "unix:/run/x.sock"
  std::string host;     // as it was said: "127.0.0.1", "box.example"; "" of a unix socket, and where none was said
  bool is_unix = false;
  bool is_loopback = false;  // nobody beyond this machine reaches it
};

// The socket of a path is for this user alone (0600); what lies there is only replaced when it is a socket of this user's
// that nobody answers. The message of an error is complete.
absl::StatusOr<Listener> Listen(const std::string& address);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_LISTEN_ADDRESS_H_
