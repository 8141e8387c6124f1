#include "report/daemon/trigger_watch.h"

#include <algorithm>

#include "fmt/format.h"
#include "report/daemon/lock_delay.h"
#include "report/observe/table/process_info.h"
#include "sampler/contract/records.h"
#include "sampler/contract/triggers.h"

namespace holdfast {
namespace {

constexpr int64_t kSlowLook = kSecond;  // for a file in /proc, or 40 KiB of the table
// In a delay's window, at least: what happened before its first look is lost.
constexpr int64_t kLooksWithin = 16;
constexpr int64_t kLimitLook = 10 * kSecond;  // limits change rarely

}  // namespace

TriggerWatch::TriggerWatch(const std::string& text, std::optional<pid_t> process, int64_t began_ns)
    : process_(process) {
  TriggerList list;
  if (text.empty() || !ParseTriggers(text.c_str(), &list)) return;
  bool wants_limit = false;
  for (int i = 0; i < list.count; ++i) {
    const Trigger& trigger = list.all[i];
    states_.push_back({TriggerState(trigger, text.c_str(), began_ns)});
    wants_in_use_ =
        wants_in_use_ || trigger.quantity == TriggerQuantity::kInUse || trigger.quantity == TriggerQuantity::kGrowth;
    wants_resident_ = wants_resident_ || trigger.quantity == TriggerQuantity::kResident;
    if (trigger.quantity == TriggerQuantity::kDelay) {
      wants_delay_ = true;
      delay_look_ns_ = std::min(delay_look_ns_, static_cast<int64_t>(trigger.within_ns) / kLooksWithin);
    }
    wants_limit = wants_limit || trigger.of_limit != 0;
  }
  if (wants_limit && process.has_value()) levels_.emplace(fmt::format("{}", *process));
}

void TriggerWatch::LookAt(Watched* watched, uint64_t value, int64_t now_ns) {
  if (watched->state.Look(value, limit_, now_ns)) watched->pending = true;
  if (watched->state.is_over()) watched->pending = false;
  has_pending_ = has_pending_ || watched->pending;
}

void TriggerWatch::Look(const TableFile& table, std::optional<uint64_t> in_use, int64_t now_ns) {
  if (!is_wanted()) return;
  if (levels_.has_value() && now_ns >= next_limit_look_ns_) {
    limit_ = static_cast<uint64_t>(levels_->limit_bytes());
    next_limit_look_ns_ = now_ns + kLimitLook;
  }
  std::optional<uint64_t> resident, delay;
  if (wants_resident_ && process_.has_value() && now_ns >= next_resident_look_ns_) {
    next_resident_look_ns_ = now_ns + kSlowLook;
    resident = ResidentBytes(*process_);
  }
  if (wants_delay_ && now_ns >= next_delay_look_ns_) {
    next_delay_look_ns_ = now_ns + delay_look_ns_;
    delay = LockDelayNs(table, now_ns);
  }
  has_pending_ = false;
  for (Watched& watched : states_) {
    has_pending_ = has_pending_ || watched.pending;
    switch (watched.state.trigger().quantity) {
      case TriggerQuantity::kInUse:
      case TriggerQuantity::kGrowth:
        if (in_use.has_value()) LookAt(&watched, *in_use >> kAmountFractionBits, now_ns);
        break;
      case TriggerQuantity::kResident:
        if (resident.has_value()) LookAt(&watched, *resident, now_ns);
        break;
      case TriggerQuantity::kDelay:
        if (delay.has_value()) LookAt(&watched, *delay, now_ns);
        break;
    }
  }
}

std::vector<std::string> TriggerWatch::Reasons() const {
  std::vector<std::string> reasons;
  for (const Watched& watched : states_) {
    if (watched.pending) reasons.push_back(watched.state.Reason());
  }
  return reasons;
}

void TriggerWatch::Tried(bool done, bool wrote, int64_t now_ns) {
  not_before_ns_ = now_ns + kExtraApart;
  if (!done) return;
  if (wrote) ++taken_;
  for (Watched& watched : states_) watched.pending = false;
  has_pending_ = false;
}

}  // namespace holdfast
