// The data behind the live page of a process: the data of a report at one moment (format HFR1,
// report/page/report_builder.h).
//
//   LiveFeeds feeds;
//   absl::StatusOr<LiveAnswer> now = feeds.Of(process);     // reads its table, unless somebody did a moment ago
//
// All viewers of one process get the same answers, one per `pace`: ten browsers cost as much as one. The pace is at
// least a second, and long enough that an answer takes at most a hundredth of it: 1 % of a core, however large the
// process is. Names are kept between answers, for all processes together (ModuleSymbolizer::kCacheBytes). Everything is
// dropped if no request comes for `forget_after`. Any thread.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_LIVE_FEED_H_
#define HOLDFAST_REPORT_FLEET_SERVE_LIVE_FEED_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "report/daemon/find_tables.h"
#include "report/fleet/live/live_process.h"
#include "report/fleet/live/thread_ticker.h"
#include "report/fleet/serve/growth_watch.h"
#include "report/fleet/serve/holder_searches.h"

namespace holdfast {

struct LiveAnswer {
  std::string version;  // equal in two answers: nothing has changed
  std::shared_ptr<const std::string> data;
  std::chrono::milliseconds pace;  // when to ask again
};

class LiveFeeds {
 public:
  static constexpr std::chrono::milliseconds kMinPace{1000}, kMaxPace{60'000};
  static constexpr int kPaceOfCost = 100;  // the pace is at least this many times the cost of an answer
  static constexpr size_t kMaxFeeds = 32;

  // `growth`: tells whether the processes grow. `holders`: what holds their memory, if somebody has asked for that.
  // `ticker`: looks at their threads. All must outlive this object. Null: not shown.
  explicit LiveFeeds(GrowthWatch* growth, HolderSearches* holders = nullptr, ThreadTicker* ticker = nullptr,
                     std::chrono::milliseconds forget_after = std::chrono::seconds(60))
      : growth_(growth), holders_(holders), ticker_(ticker), forget_after_(forget_after) {}
  explicit LiveFeeds(std::chrono::milliseconds forget_after = std::chrono::seconds(60))
      : LiveFeeds(nullptr, nullptr, nullptr, forget_after) {}
  ~LiveFeeds();

  absl::StatusOr<LiveAnswer> Of(const ProcessTable& process);
  // Returns how many feeds are kept.
  size_t size();

 private:
  using Clock = std::chrono::steady_clock;
  class Feed;
  struct Place {
    std::shared_ptr<Feed> feed;
    Clock::time_point asked;
  };

  void Forget();

  GrowthWatch* const growth_;
  HolderSearches* const holders_;
  ThreadTicker* const ticker_;
  const std::chrono::milliseconds forget_after_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, Place> feeds_;
  std::weak_ptr<Names> names_;  // shared by the existing feeds
  bool ends_ = false;
  std::thread forgetter_;  // runs from the first feed on
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_LIVE_FEED_H_
