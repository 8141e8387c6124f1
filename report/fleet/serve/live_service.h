// The server's answers, by path:
//
//   /                          the live page if there is one process, else the list of processes
//   /p/PID/, /p/PID/live       the live page of that process, and its data (live_page.h)
//   /p/PID/holders             a search for what holds the memory of that process (holder_searches.h)
//   /debug/pprof/…             of the only process, or of the one that pid= or program= names
//   /p/PID/debug/pprof/…       of that process; also /p/PID/metrics
//   /metrics, /targets         of all processes
// Any thread. Reads a process only to answer a request.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_LIVE_SERVICE_H_
#define HOLDFAST_REPORT_FLEET_SERVE_LIVE_SERVICE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/fleet/live/live_process.h"
#include "report/fleet/live/thread_ticker.h"
#include "report/fleet/serve/growth_watch.h"
#include "report/fleet/serve/holder_searches.h"
#include "report/fleet/serve/live_feed.h"
#include "report/fleet/serve/pprof_endpoints.h"
#include "report/http/http_message.h"

namespace holdfast {

class LiveService {
 public:
  LiveService(ProcessChoice choice, std::string address, FindHolders find_holders = nullptr)
      : choice_(std::move(choice)), address_(std::move(address)), holders_(std::move(find_holders)) {}

  HttpResponse Answer(const HttpRequest& request);
  // Whether the path accepts POST: only those of `symbol` and `holders` do.
  static bool TakesPost(std::string_view path);

 private:
  HttpResponse AnswerOf(pid_t pid, std::string_view path, const HttpRequest& request);
  HttpResponse AnswerOfTheOne(std::string_view name, const HttpRequest& request);

  const ProcessChoice choice_;
  const std::string address_;  // where we listen, for clients that send no Host
  ThreadTicker ticker_;        // must outlive what follows
  PprofEndpoints pprof_{&ticker_};
  GrowthWatch growth_;      // must outlive the feeds
  HolderSearches holders_;  // as well
  LiveFeeds feeds_{&growth_, &holders_, &ticker_};
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_LIVE_SERVICE_H_
