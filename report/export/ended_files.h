// The files that one exporter wrote for processes that have ended, by the user that each program was: beyond `--max-disk` the
// oldest go, so that the cap holds over many processes. What somebody else wrote is not among them, and one user's tables
// have no other user's files removed.
#ifndef HOLDFAST_REPORT_EXPORT_ENDED_FILES_H_
#define HOLDFAST_REPORT_EXPORT_ENDED_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>

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
  std::map<uid_t, std::deque<ProfileName>> files_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_EXPORT_ENDED_FILES_H_
