#include "report/analysis/idle_waits.h"

#include "report/analysis/lock_list.h"
#include "sampler/contract/layout.h"

namespace holdfast {

IdleWaits::IdleWaits(const Profile& profile, Plumbing* plumbing) : profile_(profile), plumbing_(plumbing) {
  const std::string_view kind = profile.CommentValue("kind");
  any_ = kind == "mutex" || kind == "block";
  if (!any_) return;
  const LockList list = ReadLockList(profile, plumbing);
  for (const LockList::Lock& lock : list.locks) {
    if (lock.idle) continue;
    for (const LockList::Pair& pair : list.pairs) {
      if (pair.lock != lock.number) continue;
      for (const int stack : {pair.holder, pair.waiter}) {
        if (stack == LockList::kUnknown) continue;
        contends_.insert(FunctionOf(profile, list.stacks[static_cast<size_t>(stack)], plumbing));
      }
    }
  }
}

bool IdleWaits::IsIdle(const Profile::Sample& sample) const {
  if (!any_) return false;
  for (const Profile::Label& label : profile_.LabelsOf(sample)) {
    const std::string_view key = profile_.strings[label.key], kind = profile_.strings[label.text];
    if (key != "wait" && key != "lock") continue;
    if (IsIdleKind(kind)) return true;
    if (kind != kWaitKindNames[static_cast<int>(WaitKind::kFutex)]) return false;
    return !contends_.contains(FunctionOf(profile_, profile_.FramesOf(sample), plumbing_));
  }
  return false;
}

}  // namespace holdfast
