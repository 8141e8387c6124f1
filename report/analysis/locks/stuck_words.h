// The words of `holdfast stuck` for a profile's waits: threads, locks, holders, and calls.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_STUCK_WORDS_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_STUCK_WORDS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/analysis/locks/lock_list.h"
#include "report/analysis/locks/stuck.h"
#include "report/analysis/locks/wait_rank.h"
#include "report/analysis/locks/waiting_list.h"
#include "report/analysis/profiles/plumbing.h"
#include "report/profile/profile.h"

namespace holdfast {

class StuckWords {
 public:
  // `profile` must outlive this object.
  explicit StuckWords(const Profile& profile, const CallsShown& shown = {});

  const WaitingList& list() const { return list_; }

  // "T2 worker (tid 4711)"
  std::string ThreadName(uint32_t thread) const;
  // "accounts_mutex (server)"; for a join "the end of T2 worker (tid 4711)".
  std::string LockName(const record::Wait& wait) const;
  bool HasOwnName(const record::Wait& wait) const;  // more than an address
  // Returns what its lock has in common with others (report/analysis/locks/lock_classes.h); "" if nothing is known.
  std::string LockClass(const record::Wait& wait) const;
  // With its kind: "mutex accounts_mutex (server)".
  std::string WaitTarget(const record::Wait& wait) const;
  // "transfer ← handle ← run", and the complete path; "" if unknown. `stack`: a number in the list.
  std::string Calls(uint32_t stack) const;
  std::vector<std::string> CallNames(uint32_t stack) const;  // of Calls
  std::string Way(uint32_t stack) const;
  std::vector<std::string> Functions(uint32_t stack) const;
  size_t FunctionCount(uint32_t stack) const;  // the program's own functions
  // "held by T2 flusher (tid 4714), which sleeps in fsync (…): flush_log"; "" if there is no holder.
  std::string HolderText(const record::Wait& wait) const;
  // The holder's calls; "" if unknown.
  std::string HolderCalls(const record::Wait& wait) const;
  // How the holder is known, for JSON.
  std::string HowKnown(const record::Wait& wait) const;

  // Returns whether a mutex parks this thread: the thread waits alone, in its own loop, and the holder waits for input
  // in its own loop, as a server's main thread does while other threads have no work.
  bool IsParked(const record::Wait& wait) const;
  WaitRank RankOf(const record::Wait& wait) const;
  // For a thread without a known wait: returns whether it is in its own loop.
  bool IsInLoop(const record::WaitingThread& thread) const;
  bool IsInDeadlock(uint32_t thread) const;
  // Cycles of threads that are no deadlock, although each lock names its holder: a wait has a timeout, or has just ended.
  const std::vector<std::vector<uint32_t>>& passing_circles() const { return passing_circles_; }
  bool IsInPassingCircle(uint32_t thread) const;
  // Returns whether a thread neither waits nor holds a lock with waiters.
  bool IsOther(uint32_t thread) const;
  // Returns when the last thread of a cycle began to wait.
  int64_t SinceNs(const std::vector<uint32_t>& circle) const;

 private:
  std::string DoingText(uint32_t thread, int depth) const;
  void FindPassingCircles();

  const Profile& profile_;
  mutable Plumbing plumbing_;
  const bool folds_;
  const LockList locks_;
  const WaitingList list_;
  std::map<std::pair<std::string_view, uint64_t>, size_t> waiters_;  // by kind and address
  std::set<uint32_t> holders_;                                       // threads that hold a lock with waiters
  std::vector<std::vector<uint32_t>> passing_circles_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_STUCK_WORDS_H_
