// The files of processes that have ended: beyond `--max-disk` the oldest go, so that the cap holds over many processes. First
// those that this exporter wrote, by the user that each program was: one user's tables have no other user's files removed.
// Then, for its own user alone, those of earlier exporters: a file of that user's that says itself what its name says, of a
// process of this host that has ended. What somebody else put there is not among them.
#ifndef HOLDFAST_REPORT_EXPORT_ENDED_FILES_H_
#define HOLDFAST_REPORT_EXPORT_ENDED_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "report/export/output_folder.h"

namespace holdfast {

class EndedFiles {
 public:
  // Older ones first.
  void Add(uid_t user, const ProfileName& file) { files_[user].push_back(file); }
  // Removes the oldest of `user` until all profiles in the folder together take at most `max_bytes`, or none is left.
  // 0 = no limit. How many were removed.
  uint64_t Shrink(const OutputFolder& output, uint64_t max_bytes, uid_t user);

 private:
  uint64_t ShrinkEarlier(const OutputFolder& output, uint64_t max_bytes);

  std::set<std::string> stay_;  // of other exporters' files those that were read and must stay
  std::map<uid_t, std::deque<ProfileName>> files_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_ENDED_FILES_H_
