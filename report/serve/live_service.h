// What the server answers, by path:
//
//   /                          the live page of the one process there is, or the list of them
//   /p/PID/, /p/PID/live       the live page of that one, and what it is fed with (live_page.h)
//   /debug/pprof/…             of the one process there is, or of the one that pid= or program= names
//   /p/PID/debug/pprof/…       of that one; /p/PID/metrics
//   /metrics, /targets         of all
// Any thread. No process is read but to answer a request.
#ifndef HOLDFAST_REPORT_SERVE_LIVE_SERVICE_H_
#define HOLDFAST_REPORT_SERVE_LIVE_SERVICE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/http/http_message.h"
#include "report/live/live_process.h"
#include "report/serve/growth_watch.h"
#include "report/serve/live_feed.h"
#include "report/serve/pprof_endpoints.h"

namespace holdfast {

class LiveService {
 public:
  LiveService(ProcessChoice choice, std::string address) : choice_(std::move(choice)), address_(std::move(address)) {}

  HttpResponse Answer(const HttpRequest& request);
  // Paths that take a POST: those of `symbol`.
  static bool TakesPost(std::string_view path);

 private:
  HttpResponse AnswerOf(pid_t pid, std::string_view path, const HttpRequest& request);
  HttpResponse AnswerOfTheOne(std::string_view name, const HttpRequest& request);

  const ProcessChoice choice_;
  const std::string address_;  // that we listen at, for who does not say how he reached us
  PprofEndpoints pprof_;
  GrowthWatch growth_;  // outlives the feeds
  LiveFeeds feeds_{&growth_};
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SERVE_LIVE_SERVICE_H_
