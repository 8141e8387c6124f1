// Removes files of processes that have ended: above `--max-disk` the oldest are removed, so that the limit applies to
// all processes together. First those that this exporter wrote, for the user of the program only: one user's table
// never causes removal of another user's files. Then, only for the exporter's own user, files of earlier exporters:
// files of that user with contents that match their names, from ended processes of this host. Files of other origin are
// never removed.
#ifndef HOLDFAST_REPORT_BUILDER_ENDED_FILES_H_
#define HOLDFAST_REPORT_BUILDER_ENDED_FILES_H_

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>

#include "report/builder/output_folder.h"

namespace holdfast {

class EndedFiles {
 public:
  // Call in order of age, oldest first.
  void Add(uid_t user, const ProfileName& file) { files_[user].names.push_back(file); }
  // Removes the oldest files of `user` until all profiles in the folder together take at most `max_bytes`, or none is
  // left. 0 = no limit. Returns the number of removed files.
  uint64_t Shrink(const OutputFolder& output, uint64_t max_bytes, uid_t user);

 private:
  uint64_t ShrinkEarlier(const OutputFolder& output, uint64_t max_bytes);

  std::set<std::string> stay_;  // files of other exporters that were read and must stay
  struct Files {
    std::deque<ProfileName> names;
    size_t look_at = 1024;  // with this many names, those of files that somebody removed are dropped
  };
  std::map<uid_t, Files> files_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_ENDED_FILES_H_
