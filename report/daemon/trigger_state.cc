#include "report/daemon/trigger_state.h"

#include <algorithm>

#include "fmt/format.h"
#include "report/base/value_units.h"

namespace holdfast {
namespace {

constexpr uint64_t kSlots = 64;      // slots of a window, which determine its precision
constexpr double kStaysTrue = 0.95;  // of `above`

int64_t Signed(uint64_t value) { return static_cast<int64_t>(std::min<uint64_t>(value, INT64_MAX)); }

}  // namespace

TriggerState::TriggerState(const Trigger& trigger, const char* text, int64_t began_ns)
    : trigger_(trigger), text_(text + trigger.start, trigger.bytes) {
  if (began_ns > 0) window_.push_back({began_ns, 0});
}

uint64_t TriggerState::WithinWindow(uint64_t value, int64_t now_ns) {
  const auto within = static_cast<int64_t>(trigger_.within_ns), slot = within / static_cast<int64_t>(kSlots);
  // The process may have begun by another clock than ours (a time namespace): then its beginning is unknown.
  const auto is_in_it = [&](const Slot& of) { return of.start_ns >= now_ns - within && of.start_ns <= now_ns; };
  while (!window_.empty() && !is_in_it(window_.front())) window_.pop_front();
  if (window_.empty() || now_ns - window_.back().start_ns >= slot) {
    window_.push_back({now_ns, value});
  } else {
    window_.back().least = std::min(window_.back().least, value);
  }
  uint64_t least = value;
  for (const Slot& of : window_) least = std::min(least, of.least);
  return value - least;
}

bool TriggerState::Look(uint64_t value, uint64_t limit, int64_t now_ns) {
  value_ = trigger_.within_ns != 0 ? WithinWindow(value, now_ns) : value;
  limit_ = limit;
  auto above = static_cast<double>(trigger_.above);
  if (trigger_.of_limit != 0) {
    if (limit == 0) return is_true_ = false;
    above = static_cast<double>(limit) * trigger_.of_limit / 10'000;
  }
  const auto now = static_cast<double>(value_);
  const bool was_true = is_true_;
  is_true_ = was_true ? now >= above * kStaysTrue : now > above;
  return is_true_ && !was_true;
}

std::string TriggerState::Reason() const {
  const bool is_time = trigger_.quantity == TriggerQuantity::kDelay;
  std::string reason =
      fmt::format("{} at {}", text_, is_time ? FormatTimeNs(Signed(value_)) : FormatSize(Signed(value_)));
  if (trigger_.of_limit != 0) reason += fmt::format(" of {}", FormatSize(Signed(limit_)));
  return reason;
}

}  // namespace holdfast
