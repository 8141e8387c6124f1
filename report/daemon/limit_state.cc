#include "report/daemon/limit_state.h"

#include <algorithm>

#include "report/base/time_budget.h"

namespace holdfast {
namespace {

constexpr int64_t kPart = 10;            // of the limit
constexpr double kExportSeconds = 0.2;   // until the file is written
constexpr double kUsualSpeed = 1 << 30;  // bytes a second that a program may suddenly allocate
constexpr int64_t kSoonest = 5 * kMs, kSoonestAtRest = 40 * kMs, kLatest = kSecond;
constexpr int64_t kApart = 100 * kMs, kNextWay = 30 * kSecond;
constexpr int64_t kMinPart = 100;  // of the limit: a smaller remainder is not worth another snapshot

}  // namespace

bool LimitState::Look(int64_t limit, int64_t left, int64_t takes, int64_t now_ns) {
  const double seconds = static_cast<double>(now_ns - last_ns_) / kSecond;
  if (last_left_ >= 0 && seconds > 0) {
    speed_ = std::max({0.0, static_cast<double>(last_left_ - left) / seconds, speed_ / 2});
  }
  last_left_ = left;
  last_ns_ = now_ns;
  const auto meanwhile = static_cast<int64_t>(std::min(speed_ * kExportSeconds, 1e18));
  const int64_t near = std::min(limit / 2, std::max(limit / kPart, takes) + meanwhile);
  const bool never = left_at_last_ < 0;
  if (!never && left > near + limit / (2 * kPart)) went_away_ = true;
  const bool is_another_way = never || (went_away_ && now_ns - due_ns_ >= kNextWay);
  // After the first snapshot on an approach, the next one is due when half of the remaining memory is gone, or when
  // just enough is left for it. The first one is tried with half of what it needs: it may be the only one.
  const int64_t needed = is_another_way ? takes / 2 : std::max(takes, limit / kMinPart);
  const auto next_after = [&](int64_t before) {
    const int64_t least = std::max(takes, limit / kMinPart);
    return least < before - before / 8 ? std::max(before / 2, least) : 0;
  };
  const int64_t next = is_another_way ? near : next_after(left_at_last_);
  const bool due = left <= next && left >= needed - needed / 8 && (is_another_way || now_ns - due_ns_ >= kApart);
  if (due) {
    left_at_last_ = left;
    due_ns_ = now_ns;
    went_away_ = false;
  }
  const double to_go = static_cast<double>(std::max<int64_t>(0, left - (due ? next_after(left) : next)));
  // If usage is constant, look less often.
  const int64_t soonest = speed_ < static_cast<double>(limit) / 1000 ? kSoonestAtRest : kSoonest;
  again_in_ns_ =
      std::clamp(static_cast<int64_t>(to_go / std::max(kUsualSpeed, 2 * speed_) * kSecond), soonest, kLatest);
  return due;
}

}  // namespace holdfast
