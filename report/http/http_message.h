// A request as a handler gets it, and what it answers.
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
  kOver,       // the time is over
  kBrokenOff,  // the client has gone, or the server ends
  kTooMany,    // at once: one more would take a connection that others need
};

struct HttpRequest {
  std::string method;
  std::string path;       // percent-decoded
  std::string raw_query;  // behind the '?', as it came
  std::vector<std::pair<std::string, std::string>> parameters;
  std::string host, accept;  // header fields, "" where there are none
  std::string body;
  // Waits that long.
  std::function<WaitEnd(int64_t seconds)> wait;

  // The first of that name; "" where there is none.
  std::string_view Parameter(std::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> fields = {};  // further ones of the header
  std::string body = {};
};

// "/a%20b?x=1&y=a+b" into path, raw_query and parameters, by the rules of Go's net/url: a pair that is not well-formed is
// left out, '+' is a blank in parameters. False: the path is not well-formed.
bool ParseTarget(std::string_view target, HttpRequest* request);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_HTTP_HTTP_MESSAGE_H_
