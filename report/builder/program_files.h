// Merges the short processes of a program into one file (`--merge-children`). A build or a shell starts thousands of
// processes, and a file for each would be of little use.
//
// Adds up the last profiles of those processes by function, as `holdfast merge` does. The file is
// `<program>.0.<seq>.<kind>.pb.gz` (no process has the pid 0). Each new file includes its predecessor, which is then
// removed; a later exporter continues from the newest one. One thread.
//
// Peaks are not added up, because they occurred at different times: that file has the state of the process with the
// highest peak.
#ifndef HOLDFAST_REPORT_BUILDER_PROGRAM_FILES_H_
#define HOLDFAST_REPORT_BUILDER_PROGRAM_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/analysis/profiles/profile_merger.h"
#include "report/builder/output_folder.h"
#include "report/profile/profile.h"
#include "report/profile/typed_records.h"

namespace holdfast {

class ProgramFiles {
 public:
  // Adds the last profile of a process. `program`: as in file names. The next Write writes the sum.
  absl::Status Add(const OutputFolder& output, const std::string& program, const std::string& kind,
                   const Profile& profile);
  // The same for its peak, in bytes: the highest use, and the highest captured state. `build` makes the profile of that
  // state, and is called only if one of them is the highest so far.
  absl::Status AddPeak(const OutputFolder& output, const std::string& program, double highest, double seen,
                       const std::function<Profile()>& build);
  // After a failure the next call tries again.
  absl::Status Write(const OutputFolder& output);

 private:
  using Key = std::pair<std::string, std::string>;  // program, kind
  struct Sum {
    std::unique_ptr<ProfileMerger> merger = std::make_unique<ProfileMerger>();
    uint64_t processes = 0;
    int64_t time_nanos = 0;
    std::map<std::string, uint64_t> lost;  // by cause
    std::vector<record::Interval> intervals;
    record::Sampling ages;
    std::string name, host, command;
    record::Peak peak;
    bool has_file = false;
    ProfileName file;  // the newest; valid if has_file
  };

  absl::StatusOr<Sum*> SumOf(const OutputFolder& output, const Key& key);
  static absl::Status AddTo(Sum* sum, const Profile& profile, uint64_t processes);
  static absl::Status KeepHigher(Sum* sum, const Profile& profile, uint64_t processes);
  static absl::Status Adopt(const OutputFolder& output, const Key& key, Sum* sum);
  static absl::Status WriteOne(const OutputFolder& output, const Key& key, Sum* sum);

  std::map<Key, Sum> sums_;
  std::set<Key> unwritten_;
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_BUILDER_PROGRAM_FILES_H_
