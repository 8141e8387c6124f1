// Decides whether a request is admitted, before anything else in it is examined.
//
//   token     if one is set: `Authorization: Bearer TOKEN`, or as the password of Basic, which URLs can carry
//             (http://any:TOKEN@host:6060/). Compared in constant time
//   Host      must be an address, localhost, the name that we listen at, or an allowed name. If the name
//             evil.example was pointed at 127.0.0.1 (DNS rebinding), its pages still send Host: evil.example
//   origin    no page of another origin may read anything: Origin must be ours. A request that the browser marks as coming
//             from another site is answered only if the user navigated there
//   method    GET and HEAD; POST if `takes_post` says so
#ifndef HOLDFAST_REPORT_HTTP_ADMISSION_H_
#define HOLDFAST_REPORT_HTTP_ADMISSION_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "report/http/http_message.h"

namespace holdfast {

struct AdmissionRules {
  std::string token;               // "" = none
  bool check_host = true;          // not at a unix socket, which no browser reaches
  std::vector<std::string> hosts;  // allowed names, in addition to addresses and localhost
  bool tls = false;
  std::function<bool(std::string_view path)> takes_post;
};

// Returns a field of the header by its name, or "".
using HeaderField = std::function<std::string_view(const char* name)>;

// Returns the response that refuses the request, or nothing if it is admitted.
std::optional<HttpResponse> Refusal(const AdmissionRules& rules, const HttpRequest& request, const HeaderField& field);

// Returns the first line of a file that nobody else may read; it must have at least 16 bytes. An error has a complete
// message.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_ADMISSION_H_
