#include "report/fleet/serve/live_page.h"

#include <string>
#include <utility>

#include "fmt/format.h"
#include "report/base/printable.h"
#include "report/base/utf8.h"
#include "report/fleet/live/live_process.h"
#include "report/fleet/serve/pprof_endpoints.h"
#include "report/page/filled_page.h"
#include "report/page/web_template.h"

namespace holdfast {

bool HasLivePage() { return !WebTemplate().empty(); }

HttpResponse LivePage(const ProcessTable& process) {
  const std::string title = MarkupEscaped(RepairUtf8(process.Name()));
  const std::string feed = fmt::format("/p/{}/live", PidOf(process));
  std::string page = FilledPage({.title = title, .data = "", .files = "", .feed = feed});
  std::string policy = fmt::format("{}; frame-ancestors 'none'", PolicyOf(page));
  return {.content_type = "text/html; charset=utf-8",
          .fields = {{"X-Content-Type-Options", "nosniff"},
                     {"Cache-Control", "no-store"},
                     {"Content-Security-Policy", std::move(policy)}},
          .body = std::move(page)};
}

HttpResponse LiveData(const ProcessTable& process, const HttpRequest& request, LiveFeeds& feeds) {
  const absl::StatusOr<LiveAnswer> now = feeds.Of(process);
  if (!now.ok()) return PprofError(500, std::string(now.status().message()));
  HttpResponse response = {.content_type = "application/octet-stream",
                           .fields = {{"X-Content-Type-Options", "nosniff"},
                                      {"Cache-Control", "no-store"},
                                      {"Holdfast-Version", now->version},
                                      {"Holdfast-Pace", fmt::format("{}", now->pace.count())}}};
  if (request.Parameter("since") == now->version) {
    response.status = 204;
  } else {
    response.body = *now->data;
  }
  return response;
}

}  // namespace holdfast
