// The live page of a process: the page of `holdfast html`, and the data that it requests while open.
//
//   /p/4242/        the page. Reads nothing from the process
//   /p/4242/live    the current data; ?since=VERSION: 204 while nothing has changed. Every answer has the header fields
//                     Holdfast-Version   the version of the current data
//                     Holdfast-Pace      milliseconds after which to ask again
// Source lines are not sent: `serve` answers everyone who can reach it, `html` only people who may read the files. Any
// thread.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_LIVE_PAGE_H_
#define HOLDFAST_REPORT_FLEET_SERVE_LIVE_PAGE_H_

#include "report/daemon/find_tables.h"
#include "report/fleet/serve/live_feed.h"
#include "report/http/http_message.h"

namespace holdfast {

// Whether there is a page. A tool that was built without it has none.
bool HasLivePage();
HttpResponse LivePage(const ProcessTable& process);
HttpResponse LiveData(const ProcessTable& process, const HttpRequest& request, LiveFeeds& feeds);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_LIVE_PAGE_H_
