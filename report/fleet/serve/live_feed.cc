#include "report/fleet/serve/live_feed.h"

#include <malloc.h>

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "fmt/format.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/profiles/profile_set.h"
#include "report/base/time_budget.h"
#include "report/builder/describe_scan.h"
#include "report/builder/profile_builder.h"
#include "report/fleet/live/live_process.h"
#include "report/observe/observe.h"
#include "report/page/report_builder.h"
#include "report/profile/lock_record_limits.h"

namespace holdfast {
namespace {

constexpr int64_t kFilesBelieved = 10 * kSecond;

// Returns a fingerprint that stays equal while a page would show the same. Time asleep does not change it; time spent
// waiting for a lock does.
uint64_t FingerprintOf(const ProcessState& state) {
  uint64_t hash = absl::HashOf(ProcessId(state.table->process), state.waits.deadlocks.size());
  for (const RowInfo& row : state.table->rows) hash = absl::HashOf(hash, row.stack, row.class_bytes, row.sums);
  for (const OngoingWaitInfo& wait : state.waits.ongoing) {
    const bool is_idle = HasNoHolder(wait.kind) || wait.kind == WaitKind::kFutex;
    hash = absl::HashOf(hash, wait.place, wait.owner, wait.holder, is_idle ? 0 : state.table->monotonic_ns);
  }
  if (state.thread_times != nullptr) hash = absl::HashOf(hash, state.thread_times->looks);
  return hash;
}

}  // namespace

class LiveFeeds::Feed {
 public:
  Feed(std::shared_ptr<Names> names, GrowthWatch* growth, HolderSearches* holders, ThreadTicker* ticker)
      : names_(std::move(names)), growth_(growth), holders_(holders), ticker_(ticker) {}

  absl::StatusOr<LiveAnswer> Now(const ProcessTable& process) {
    const std::lock_guard lock(mutex_);  // concurrent requests wait here for the same answer
    const HolderSearches::Found held =
        holders_ == nullptr ? HolderSearches::Found() : holders_->Of(process.table.key());
    if (answer_.data != nullptr && held.number == held_ && Clock::now() < asked_ + answer_.pace * 4 / 5) return answer_;
    const Clock::time_point asked = Clock::now();
    const int64_t begin = NowNs(CLOCK_THREAD_CPUTIME_ID);
    const bool has_looks = ticker_ != nullptr && process.table.WantsWall() && ticker_->ClosePeriod(process).ok();
    absl::StatusOr<ProcessState> state = observer_.Observe(
        process.table, {.waits = true, .threads = ThreadsWanted::kYes, .has_looks = has_looks, .mappings = true});
    if (!state.ok()) return state.status();
    if (has_looks) (void)ticker_->AddTo(process, ThreadTicker::Sums::kWhole, &*state);  // a failure leaves the kind out
    uint64_t growth_version = 0;
    const std::vector<WatchedGrowth> growths =
        growth_ == nullptr ? std::vector<WatchedGrowth>() : growth_->OfOne(process, &growth_version);
    if (const uint64_t fingerprint = absl::HashOf(FingerprintOf(*state), growth_version, held.number);
        fingerprint != fingerprint_ || !is_whole_) {
      is_whole_ = true;
      answer_.data = std::make_shared<const std::string>(Encode(process, *state, growths, held.make_profile));
      held_ = held.number;
      answer_.version = fmt::format("{:016x}.{}", fingerprint, ++answers_);
      fingerprint_ = fingerprint;
    }
    asked_ = asked;
    const std::chrono::nanoseconds cost(NowNs(CLOCK_THREAD_CPUTIME_ID) - begin);
    // Use the lesser of two costs, because names are looked up only once and should not count.
    const auto pace =
        std::chrono::duration_cast<std::chrono::milliseconds>(std::min(cost, last_cost_) * LiveFeeds::kPaceOfCost);
    answer_.pace = std::clamp(pace, kMinPace, kMaxPace);
    last_cost_ = cost;
    return answer_;
  }

 private:
  std::string Encode(const ProcessTable& process, const ProcessState& state, const std::vector<WatchedGrowth>& growths,
                     const MakeHoldersProfile& make_holders) {
    ReportBuilder builder({}, {process.out()});
    for (int i = 0; i < kProfileKinds; ++i) {
      const auto kind = static_cast<ProfileKind>(i);
      auto profile = std::make_shared<Profile>(BuildProfile(state, kind));
      if (profile->samples.empty()) continue;
      is_whole_ = names_->Give(state, kind, profile.get()) && is_whole_;
      if (kind == ProfileKind::kBlock && !state.waits.ongoing.empty()) {
        builder.SetWaiting(StuckJson(*profile, PidOf(process)));
      }
      ProfileFile file = DescribeFile(
          fmt::format("{}.{}.{}.pb.gz", process.table.program(), PidOf(process), kProfileKindNames[i]), *profile);
      file.profile = std::move(profile);
      builder.Add(file, false, true);
    }
    if (make_holders) {
      // The result of the newest search remains in each answer, as the other values do.
      auto profile = std::make_shared<Profile>(make_holders());
      DescribeScan(state.table->process, state.table->wall_ns, profile.get());
      ProfileFile file =
          DescribeFile(fmt::format("{}.{}.holders.pb.gz", process.table.program(), PidOf(process)), *profile);
      file.profile = std::move(profile);
      builder.Add(file, false, true);
    }
    if (state.thread_times != nullptr) {
      auto profile = std::make_shared<Profile>(BuildWallProfile(state));
      is_whole_ = names_->Give(state, ProfileKind::kBlock, profile.get()) && is_whole_;
      ProfileFile file =
          DescribeFile(fmt::format("{}.{}.wall.pb.gz", process.table.program(), PidOf(process)), *profile);
      file.profile = std::move(profile);
      builder.Add(file, false, true);
    }
    for (const WatchedGrowth& growth : growths) {
      if (growth.page.snapshots > 0) builder.AddGrowths(growth.page);
    }
    return builder.Encode();
  }

  const std::shared_ptr<Names> names_;  // shared by all, because processes have most files in common
  GrowthWatch* const growth_;
  HolderSearches* const holders_;
  ThreadTicker* const ticker_;
  std::mutex mutex_;  // guards what follows
  ProcessObserver observer_;
  LiveAnswer answer_;
  uint64_t fingerprint_ = 0, answers_ = 0, held_ = 0;
  bool is_whole_ = false;  // no source line is missing for lack of time
  Clock::time_point asked_;
  std::chrono::nanoseconds last_cost_{0};
};

LiveFeeds::~LiveFeeds() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (forgetter_.joinable()) forgetter_.join();
}

absl::StatusOr<LiveAnswer> LiveFeeds::Of(const ProcessTable& process) {
  std::shared_ptr<Feed> feed;
  {
    const std::lock_guard lock(mutex_);
    // A table belongs to one program image of one process.
    Place& place = feeds_[process.table.key()];
    if (place.feed == nullptr) {
      std::shared_ptr<Names> names = names_.lock();
      if (names == nullptr) names_ = names = std::make_shared<Names>(kFilesBelieved);
      place.feed = std::make_shared<Feed>(std::move(names), growth_, holders_, ticker_);
    }
    place.asked = Clock::now();
    feed = place.feed;
    if (feeds_.size() > kMaxFeeds) {
      feeds_.erase(std::min_element(feeds_.begin(), feeds_.end(),
                                    [](const auto& a, const auto& b) { return a.second.asked < b.second.asked; }));
    }
    if (!forgetter_.joinable()) forgetter_ = std::thread([this] { Forget(); });
  }
  changed_.notify_all();
  return feed->Now(process);
}

size_t LiveFeeds::size() {
  const std::lock_guard lock(mutex_);
  return feeds_.size();
}

void LiveFeeds::Forget() {
  std::unique_lock lock(mutex_);
  while (!ends_) {
    if (feeds_.empty()) {
      changed_.wait(lock);
      continue;
    }
    const auto first = std::min_element(feeds_.begin(), feeds_.end(),
                                        [](const auto& a, const auto& b) { return a.second.asked < b.second.asked; });
    const Clock::time_point due = first->second.asked + forget_after_;
    if (Clock::now() < due) {
      changed_.wait_until(lock, due);
      continue;
    }
    std::shared_ptr<Feed> gone = std::move(first->second.feed);
    feeds_.erase(first);
    lock.unlock();
    gone.reset();
    malloc_trim(0);  // the symbols were many small blocks
    lock.lock();
  }
}

}  // namespace holdfast
