// The words of `holdfast stuck` for what a profile says of waits: threads, locks, who holds them, the calls that lead there.
#ifndef HOLDFAST_REPORT_WAITERS_STUCK_WORDS_H_
#define HOLDFAST_REPORT_WAITERS_STUCK_WORDS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "report/analysis/lock_list.h"
#include "report/analysis/wait_rank.h"
#include "report/analysis/waiting_list.h"
#include "report/pprof/profile.h"
#include "report/profiles/plumbing.h"
#include "report/waiters/stuck.h"

namespace holdfast {

class StuckWords {
 public:
  // It outlives this.
  explicit StuckWords(const Profile& profile, const CallsShown& shown = {});

  const WaitingList& list() const { return list_; }
  const WaitingList::Thread& ThreadAt(int thread) const { return list_.threads[static_cast<size_t>(thread)]; }
  // Of a thread that waits.
  const WaitingList::Wait& WaitOf(int thread) const { return list_.waits[static_cast<size_t>(ThreadAt(thread).wait)]; }

  // "T2 worker (tid 4711)"
  std::string ThreadName(int thread) const;
  // "accounts_mutex (server)"; of a join "the end of T2 worker (tid 4711)".
  std::string LockName(const WaitingList::Wait& wait) const;
  bool HasOwnName(const WaitingList::Wait& wait) const;  // not only an address
  // What its lock has in common with others (report/analysis/lock_classes.h); "" where nothing is known of it.
  std::string LockClass(const WaitingList::Wait& wait) const;
  // With what it is: "mutex accounts_mutex (server)".
  std::string WhatIsWaitedFor(const WaitingList::Wait& wait) const;
  // "transfer ← handle ← run", and the whole way; "" if it is not known. Into WaitingList::stacks.
  std::string Calls(int stack) const;
  std::string Way(int stack) const;
  std::vector<std::string> Functions(int stack) const;
  size_t FunctionCount(int stack) const;  // of the program's own
  // "held by T2 flusher (tid 4714), which sleeps in fsync (…): flush_log"; "" of what nobody holds.
  std::string HolderText(const WaitingList::Wait& wait) const;
  // The calls of its holder; "" if they are not known.
  std::string HolderCalls(const WaitingList::Wait& wait) const;
  // How the holder is known, for programs.
  std::string HowKnown(const WaitingList::Wait& wait) const;

  // Whether a thread is parked by its wait for a mutex: it waits alone, in its own loop, and the holder waits for input in a loop of
  // its own, as a server's main thread does while there is no work for others.
  bool IsParked(const WaitingList::Wait& wait) const;
  WaitRank RankOf(const WaitingList::Wait& wait) const;
  // Of one that does not wait for anything that we know: whether it is in its own loop.
  bool IsInLoop(const WaitingList::Thread& thread) const;
  bool IsInDeadlock(int thread) const;
  // A thread that neither waits nor holds what somebody waits for.
  bool IsOther(int thread) const;
  // When the last of a circle of threads began to wait.
  int64_t SinceNs(const std::vector<int>& circle) const;

 private:
  std::string DoingText(int thread, int depth) const;
  const std::vector<uint32_t>& StackAt(int stack) const { return list_.stacks[static_cast<size_t>(stack)]; }

  const Profile& profile_;
  mutable Plumbing whose_;
  const bool folds_;
  const LockList locks_;
  const WaitingList list_;
  std::map<std::pair<std::string_view, std::string_view>, size_t> waiters_;  // by kind and address
  std::set<int> holders_;  // threads that hold what somebody waits for
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_WAITERS_STUCK_WORDS_H_
