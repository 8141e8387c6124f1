// The live page of a process: the page of `holdfast html`, and what it asks for as it goes.
//
//   /p/4242/        the page. Nothing is read for it
//   /p/4242/live    what it shows, of now; ?since=VERSION: 204 as long as nothing has changed. The header says of every answer
//                     Holdfast-Version   of what is there now
//                     Holdfast-Pace      milliseconds after which to ask again
// Lines of source are not sent: `serve` answers whoever reaches it, `html` only who may read the files. Any thread.
#ifndef HOLDFAST_REPORT_SERVE_LIVE_PAGE_H_
#define HOLDFAST_REPORT_SERVE_LIVE_PAGE_H_

#include "report/http/http_message.h"
#include "report/processes/find_tables.h"
#include "report/serve/live_feed.h"

namespace holdfast {

// Whether there is a page: not in a tool that was built without it.
bool HasLivePage();
HttpResponse LivePage(const ProcessTable& process);
HttpResponse LiveData(const ProcessTable& process, const HttpRequest& request, LiveFeeds& feeds);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SERVE_LIVE_PAGE_H_
