// Determines the rank (report/analysis/locks/wait_rank.h) of each sample in a mutex or block profile, by the label `wait` or
// `lock`. For futexes it uses the records of locks: the sample is an event if a function waits for (or wakes) only event
// futexes.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_IDLE_WAITS_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_IDLE_WAITS_H_

#include <set>
#include <string>
#include <utility>

#include "report/analysis/locks/wait_rank.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/profile/profile.h"

namespace holdfast {

class IdleWaits {
 public:
  // Both arguments must outlive this object. In a profile of another kind every sample ranks as a lock.
  IdleWaits(const Profile& profile, Plumbing* plumbing);
  // For a merged mutex or block profile, which has no records of locks: `contends` is the union from all its files.
  IdleWaits(const Profile& profile, Plumbing* plumbing, std::set<std::string> contends)
      : profile_(profile), plumbing_(plumbing), any_(true), contends_(std::move(contends)) {}

  WaitRank RankOf(const Profile::Sample& sample) const;
  bool any() const { return any_; }  // whether the profile has waits
  const std::set<std::string>& contends() const { return contends_; }

 private:
  bool IsHeld(const Profile::Sample& sample) const;

  const Profile& profile_;
  Plumbing* plumbing_;
  bool any_ = false;
  std::set<std::string> contends_;  // functions that wait for, or release, a futex that is a lock
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_IDLE_WAITS_H_
