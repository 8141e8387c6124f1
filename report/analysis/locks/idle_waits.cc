#include "report/analysis/locks/idle_waits.h"

#include "report/analysis/locks/lock_list.h"
#include "report/profile/typed_records.h"
#include "sampler/contract/layout.h"

namespace holdfast {

IdleWaits::IdleWaits(const Profile& profile, Plumbing* plumbing) : profile_(profile), plumbing_(plumbing) {
  const std::string_view kind = profile.process().kind;
  any_ = kind == "mutex" || kind == "block";
  if (!any_) return;
  const LockList list = ReadLockList(profile, plumbing);
  for (const LockList::Lock& lock : list.locks) {
    if (lock.rank != WaitRank::kLock) continue;
    for (const LockList::Pair& pair : list.pairs) {
      if (pair.lock != lock.number) continue;
      for (const int stack : {pair.holder, pair.waiter}) {
        if (stack == LockList::kUnknown) continue;
        if (const auto name = NamedFunctionOf(profile, list.stacks[static_cast<size_t>(stack)], plumbing))
          contends_.insert(*name);
      }
    }
  }
}

bool IdleWaits::IsHeld(const Profile::Sample& sample) const {
  for (const Profile::Label& label : profile_.LabelsOf(sample)) {
    const std::string_view key = profile_.strings[label.key], kind = profile_.strings[label.text];
    if (key != "wait" && key != "lock") continue;
    if (IsUnheldKind(kind)) return false;
    if (kind != kWaitKindNames[static_cast<int>(WaitKind::kFutex)]) return true;
    const auto name = NamedFunctionOf(profile_, profile_.FramesOf(sample), plumbing_);
    return name.has_value() && contends_.contains(*name) && !WaitsForAnEvent(profile_, profile_.FramesOf(sample));
  }
  return true;
}

WaitRank IdleWaits::RankOf(const Profile::Sample& sample) const {
  if (!any_ || IsHeld(sample)) return WaitRank::kLock;
  return RankOfUnheld(profile_, profile_.FramesOf(sample), false, plumbing_);
}

}  // namespace holdfast
