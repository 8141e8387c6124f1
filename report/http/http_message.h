// A request as a handler receives it, and the handler's answer.
//
//   GET /p/4242/debug/pprof/heap?seconds=5     path "/p/4242/debug/pprof/heap", raw_query "seconds=5", Parameter("seconds") "5"
#ifndef HOLDFAST_REPORT_HTTP_HTTP_MESSAGE_H_
#define HOLDFAST_REPORT_HTTP_HTTP_MESSAGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast {

enum class WaitEnd {
  kOver,       // the time has passed
  kBrokenOff,  // the client has gone, or the server stops
  kTooMany,    // too many wait: one more would take a connection that others need
};

struct HttpRequest {
  std::string method;
  std::string path;       // percent-decoded
  std::string raw_query;  // the text after '?', unchanged
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string host, accept;  // header fields; "" = missing
  std::string body;
  // Waits for this time.
  std::function<WaitEnd(int64_t seconds)> wait;

  // Returns the first parameter of that name, or "".
  std::string_view Parameter(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> fields = {};  // additional header fields
  std::string body = {};
};

// Splits "/a%20b?x=1&y=a+b" into path, raw_query and parameters, with the rules of Go's net/url: ignores malformed
// pairs, and '+' is a blank in parameters. Returns false if the path is malformed.
bool ParseTarget(std::string_view target, HttpRequest* request);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_HTTP_MESSAGE_H_
