// What holds the memory of a served process, searched only when a viewer of its live page asks for it.
//
//   POST /p/4242/holders    starts a search, unless one runs
//   GET  /p/4242/holders    {"state":"running","percent":37,"message":"","at_ms":0}
//
//   state     none, running, done, failed
//   message   why the search failed
//   at_ms     when the newest complete search began, in milliseconds since 1970; 0: there is none
//
// The result is a part of the live page's data (live_feed.h) from then on. One search runs at a time, for all processes.
// Any thread.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_HOLDER_SEARCHES_H_
#define HOLDFAST_REPORT_FLEET_SERVE_HOLDER_SEARCHES_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "report/daemon/find_tables.h"
#include "report/http/http_message.h"
#include "report/profile/profile.h"

namespace holdfast {

// Makes a profile of the kind `holders` (report/show/holders_profile.h) of one search. Any thread.
using MakeHoldersProfile = std::function<Profile()>;
// Searches a process's memory. `progress` may be called with the percentage that has been read. `stop`: the result is
// not wanted any more, so that the search ends early. An error says why the memory was not searched.
using FindHolders = std::function<absl::StatusOr<MakeHoldersProfile>(
    pid_t pid, const std::function<void(int percent)>& progress, std::stop_token stop)>;

class HolderSearches {
 public:
  // `find`: null: there is no search, and requests for one are refused. The destructor ends a running search.
  explicit HolderSearches(FindHolders find) : find_(std::move(find)) {}

  HttpResponse Answer(const ProcessTable& process, const HttpRequest& request);

  struct Found {
    MakeHoldersProfile make_profile;  // null: no search was completed
    uint64_t number = 0;              // another one for each completed search
  };
  // `key`: of the process's table (SharedTable::key).
  Found Of(const std::string& key);

 private:
  static constexpr size_t kMostKept = 16;  // processes

  struct Search {
    bool runs = false;
    int percent = 0;
    std::string error;
    int64_t began_ms = 0;
    Found found;
    int64_t found_ms = 0;
  };

  void Start(pid_t pid, const std::string& key);
  void Run(pid_t pid, const std::string& key, const std::stop_token& stop);
  void DropOldest(const std::string& except);

  const FindHolders find_;
  std::mutex mutex_;                        // guards what follows
  std::map<std::string, Search> searches_;  // by key
  uint64_t completed_ = 0;
  bool is_running_ = false;
  std::jthread worker_;  // last member: it uses the others
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_HOLDER_SEARCHES_H_
