// What the live page of a process is fed with: the data of a report (format HFR1, report/html/report_builder.h) of one moment.
//
//   LiveFeeds feeds;
//   absl::StatusOr<LiveAnswer> now = feeds.Of(process);     // reads its table, unless somebody did a moment ago
//
// All who look at one process get the same answers, one for each `pace`: ten browsers cost what one does. The pace is a second,
// or as much longer as it takes for an answer to be a hundredth of it: 1 % of a core, whatever the size of the process.
// Names are kept from one answer to the next, for all processes together (ModuleSymbolizer::kCacheBytes), and dropped with everything
// else once nobody has asked for `forget_after`. Any thread.
#ifndef HOLDFAST_REPORT_SERVE_LIVE_FEED_H_
#define HOLDFAST_REPORT_SERVE_LIVE_FEED_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "report/live/live_process.h"
#include "report/processes/find_tables.h"
#include "report/serve/growth_watch.h"

namespace holdfast {

struct LiveAnswer {
  std::string version;  // equal in two answers of a process: nothing has changed
  std::shared_ptr<const std::string> data;
  std::chrono::milliseconds pace;  // when to ask again
};

class LiveFeeds {
 public:
  static constexpr std::chrono::milliseconds kLeastPace{1000}, kMostPace{60'000};
  static constexpr int kPaceOfCost = 100;  // what an answer costs is this part of the pace
  static constexpr size_t kMostFeeds = 32;

  // `growth` says whether the processes grow, and outlives this; null: nothing does.
  explicit LiveFeeds(GrowthWatch* growth, std::chrono::milliseconds forget_after = std::chrono::seconds(60))
      : growth_(growth), forget_after_(forget_after) {}
  explicit LiveFeeds(std::chrono::milliseconds forget_after = std::chrono::seconds(60))
      : LiveFeeds(nullptr, forget_after) {}
  ~LiveFeeds();

  absl::StatusOr<LiveAnswer> Of(const ProcessTable& process);
  // That are remembered.
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
  const std::chrono::milliseconds forget_after_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, Place> feeds_;
  std::weak_ptr<Names> names_;  // of the feeds that there are
  bool ends_ = false;
  std::thread forgetter_;  // from the first feed on
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SERVE_LIVE_FEED_H_
