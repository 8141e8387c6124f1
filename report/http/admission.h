// Who is let in, before anything of a request is looked at.
//
//   token     where one is set: `Authorization: Bearer TOKEN`, or as the password of Basic, which URLs can carry
//             (http://any:TOKEN@host:6060/). Compared in a time that does not depend on where they differ
//   Host      an address, localhost, the name we listen at, or one that was allowed: a page of evil.example whose name was
//             pointed at 127.0.0.1 (DNS rebinding) still says Host: evil.example
//   origin    no page of another origin reads anything: its Origin must be ours, and a browser that says a request comes
//             from another site is answered only where the user went there himself
//   method    GET and HEAD; POST where `takes_post` says so
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
  bool check_host = true;          // not at a unix socket: no browser reaches it
  std::vector<std::string> hosts;  // names beside addresses and localhost
  bool tls = false;
  std::function<bool(std::string_view path)> takes_post;
};

// The field of the header by its name; "" where there is none.
using HeaderField = std::function<std::string_view(const char* name)>;

// Nothing: come in.
std::optional<HttpResponse> Refusal(const AdmissionRules& rules, const HttpRequest& request, const HeaderField& field);

// The first line of a file that nobody else may read, 16 bytes or more. The message of an error is complete.
absl::StatusOr<std::string> ReadTokenFile(const std::string& path);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_ADMISSION_H_
