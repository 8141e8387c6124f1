#include "report/fleet/serve/holder_searches.h"

#include <algorithm>
#include <utility>

#include "report/base/json_text.h"
#include "report/base/time_budget.h"
#include "report/fleet/serve/pprof_endpoints.h"

namespace holdfast {

HttpResponse HolderSearches::Answer(const ProcessTable& process, const HttpRequest& request) {
  if (find_ == nullptr) return PprofError(404, "this server does not search for holders");
  const std::string key = process.table.key();
  if (request.method == "POST") Start(PidOf(process), key);
  JsonText json;
  {
    const std::lock_guard lock(mutex_);
    const auto known = searches_.find(key);
    const Search search = known == searches_.end() ? Search() : known->second;
    json.Open('{').Key("state").String(search.runs                            ? "running"
                                       : !search.error.empty()                ? "failed"
                                       : search.found.make_profile != nullptr ? "done"
                                                                              : "none");
    json.Key("percent").Number(search.percent).Key("message").String(search.error);
    json.Key("at_ms").Number(search.found_ms).Close('}');
  }
  return {.status = request.method == "POST" ? 202 : 200,
          .content_type = "application/json",
          .fields = {{"X-Content-Type-Options", "nosniff"}, {"Cache-Control", "no-store"}},
          .body = json.text() + "\n"};
}

HolderSearches::Found HolderSearches::Of(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto known = searches_.find(key);
  return known == searches_.end() ? Found() : known->second.found;
}

void HolderSearches::Start(pid_t pid, const std::string& key) {
  const std::lock_guard lock(mutex_);
  Search& search = searches_[key];
  if (search.runs) return;
  if (is_running_) {
    search.error = "the memory of another program is being searched. Try again in a moment";
    return;
  }
  DropOldest(key);
  if (worker_.joinable()) worker_.join();  // it has ended its search
  search.runs = is_running_ = true;
  search.percent = 0;
  search.error.clear();
  search.began_ms = NowNs(CLOCK_REALTIME) / 1'000'000;
  worker_ = std::jthread([this, pid, key](const std::stop_token& stop) { Run(pid, key, stop); });
}

void HolderSearches::Run(pid_t pid, const std::string& key, const std::stop_token& stop) {
  const auto show = [&](int percent) {
    const std::lock_guard lock(mutex_);
    searches_[key].percent = std::clamp(percent, 0, 100);
  };
  absl::StatusOr<MakeHoldersProfile> found = find_(pid, show, stop);
  const std::lock_guard lock(mutex_);
  Search& search = searches_[key];
  if (found.ok()) {
    search.found = {.make_profile = *std::move(found), .number = ++completed_};
    search.found_ms = search.began_ms;
  } else {
    search.error = std::string(found.status().message());
  }
  search.runs = is_running_ = false;
}

void HolderSearches::DropOldest(const std::string& except) {
  while (searches_.size() > kMostKept) {
    auto oldest = searches_.end();
    for (auto one = searches_.begin(); one != searches_.end(); ++one) {
      if (one->first != except && (oldest == searches_.end() || one->second.began_ms < oldest->second.began_ms))
        oldest = one;
    }
    searches_.erase(oldest);
  }
}

}  // namespace holdfast
