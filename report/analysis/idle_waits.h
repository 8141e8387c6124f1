// The rank (report/analysis/wait_rank.h) of each sample of a mutex or block profile: by the label `wait` or `lock`, and for
// futexes by what the lock comments tell of whoever waits or wakes: an event where all that a function waits for (or wakes)
// are events.
#ifndef HOLDFAST_REPORT_ANALYSIS_IDLE_WAITS_H_
#define HOLDFAST_REPORT_ANALYSIS_IDLE_WAITS_H_

#include <set>
#include <string>
#include <utility>

#include "report/analysis/wait_rank.h"
#include "report/pprof/profile.h"
#include "report/profiles/plumbing.h"

namespace holdfast {

class IdleWaits {
 public:
  // Both outlive it. Of a profile of another kind everything is a lock.
  IdleWaits(const Profile& profile, Plumbing* plumbing);
  // Of a mutex or block profile that is a sum, and has no lock comments: `contends` of all that was added up.
  IdleWaits(const Profile& profile, Plumbing* plumbing, std::set<std::string> contends)
      : profile_(profile), plumbing_(plumbing), any_(true), contends_(std::move(contends)) {}

  WaitRank RankOf(const Profile::Sample& sample) const;
  bool any() const { return any_; }  // whether the profile has waits at all
  const std::set<std::string>& contends() const { return contends_; }

 private:
  bool IsHeld(const Profile::Sample& sample) const;

  const Profile& profile_;
  Plumbing* plumbing_;
  bool any_ = false;
  std::set<std::string> contends_;  // functions that wait for, or let go, a futex that is a lock
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_IDLE_WAITS_H_
