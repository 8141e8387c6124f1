// Adds up the single locks of several profiles, together with a ProfileMerger: sums, durations, pairs and call sites.
//
//   ProfileMerger merger;   LockMerger locks(&merger);
//   for (…) { merger.Add(*file.profile, …);   locks.Add(*file.profile, file.process); }
//   Merged merged = merger.Take();   locks.WriteTo(merged.profile.get());
//
// Two locks are the same if they have the same name and kind (a global variable of one program), or the same offset in
// blocks from one call path; otherwise if they have the same address in the same process. One thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_MERGER_H_
#define HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_MERGER_H_

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "report/analysis/locks/lock_list.h"
#include "report/analysis/profiles/profile_merger.h"

namespace holdfast {

class LockMerger {
 public:
  explicit LockMerger(ProfileMerger* merger) : merger_(*merger) {}

  void Add(const Profile& from, const std::string& process) { AddSigned(from, process, 1); }
  // Subtracts an earlier snapshot of the process. The longest time remains, because it may have occurred later.
  void Subtract(const Profile& from, const std::string& process) { AddSigned(from, process, -1); }
  // Writes the hottest locks as records. `profile`: the merger's result.
  void WriteTo(Profile* profile);

 private:
  void AddSigned(const Profile& from, const std::string& process, int sign);
  int StackNumber(const std::vector<uint32_t>& stack);

  ProfileMerger& merger_;
  LockList sum_;                                                               // numbers are positions in it, from 1
  std::map<std::tuple<std::string, std::string, std::string>, size_t> locks_;  // kind, and what identifies the lock
  std::map<std::vector<uint32_t>, int> stacks_;
  std::map<std::tuple<int, int, int>, size_t> pairs_;
  std::map<std::tuple<int, std::string, bool>, size_t> sites_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_LOCKS_LOCK_MERGER_H_
