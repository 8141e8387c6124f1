// The first view, if the user asks for no kind and no metric. `holdfast top` and the other views, the summary of `run`
// and the page follow these rules:
//
//   memory in use       the usual case. For a process that exited, at the last snapshot before its exit handlers
//                       (report/analysis/profiles/profile_set.h)
//   the peak            if the programs have freed everything that they allocated themselves, and the one that allocated most
//                       has a peak profile
//   all allocations     if they have freed everything, and there is no such peak profile
//
// Memory that only plumbing allocated does not count as in use: a C++ program that has freed everything still holds 72 KiB,
// libstdc++'s reserve for exceptions.
//
// Locks come first if threads waited for locks that others held for more than a quarter of the time that the process ran
// (LockTrouble): views say so in their first line, `run` suggests `holdfast locks` first, and the page opens the Locks view
// unless memory grows.
#ifndef HOLDFAST_REPORT_ANALYSIS_OPENING_H_
#define HOLDFAST_REPORT_ANALYSIS_OPENING_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/analysis/profiles/plumbing.h"
#include "report/profile/profile.h"

namespace holdfast {

enum class Opening : uint8_t { kInUse, kPeak, kAllocated };

// The program's own memory in one heap profile: of stacks in which some function is not plumbing.
struct OwnMemory {
  std::string process;
  double in_use = 0, variance = 0, allocated = 0;
  int64_t left = 0;  // bytes in use, including those of plumbing

  // Returns nothing for a profile without memory in use, such as one from another tool.
  static std::optional<OwnMemory> Of(const Profile& heap, std::string process, Plumbing* plumbing);
};

// `with_peak`: the processes that have a peak profile.
Opening OpeningOf(const std::vector<OwnMemory>& heaps, const std::set<std::string>& with_peak);

// Returns "nothing is in use any more, so this shows the peak". `left`: bytes still in use, formatted; "" if none.
std::string OpeningText(Opening opening, const std::string& left);

// Threads of one process waited too long for locks that others held.
struct LockTrouble {
  int64_t delay_ns = 0;  // until the snapshot, including waits in progress
  std::string hottest;   // the name of the lock with the longest delay; "" if unknown

  // For several processes: sums the delays, names the hottest lock of the process that waited longest.
  void Add(const LockTrouble& other);
  int64_t longest_ns = 0;  // of one process
};

// Returns how long threads waited for locks that others held. `block`: a block profile.
int64_t HeldLockDelay(const Profile& block, Plumbing* plumbing);
// Returns nothing if the delay is short, or if the profile does not say how long the process ran.
std::optional<LockTrouble> LockTroubleOf(const Profile& block, Plumbing* plumbing);
// Returns "5.3s for locks that others held, most for jobs::job_lock".
std::string LockTroubleText(const LockTrouble& trouble);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_OPENING_H_
