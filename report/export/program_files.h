// One file for all the short processes of a program (`--merge-children`): a build or a shell starts thousands, and a file for
// each would say little and be many.
//
// The sums of what those processes left, function by function, as `holdfast merge` makes them. The file is called
// `<program>.0.<seq>.<kind>.pb.gz` (no process has the pid 0), and each that is written holds what the one before it held, which
// is then removed; an exporter that comes later goes on from the newest. One thread.
//
// Peaks are not added up, as each was at another time: that file has the state of the one process that had most.
#ifndef HOLDFAST_REPORT_EXPORT_PROGRAM_FILES_H_
#define HOLDFAST_REPORT_EXPORT_PROGRAM_FILES_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "report/export/output_folder.h"
#include "report/pprof/profile.h"
#include "report/profiles/profile_merger.h"

namespace holdfast {

class ProgramFiles {
 public:
  // Adds the last profile of one process. `program` as it stands in file names. Written by the next Write.
  absl::Status Add(const OutputFolder& output, const std::string& program, const std::string& kind,
                   const Profile& profile);
  // The same of its peak, in bytes: of the most that was in use, and of the state that was seen. `build` makes the profile of that;
  // called only where one of them is higher than all before.
  absl::Status AddPeak(const OutputFolder& output, const std::string& program, double highest, double seen,
                       const std::function<Profile()>& build);
  bool has_unwritten() const { return !unwritten_.empty(); }
  // On failure the next call tries again what is missing.
  absl::Status Write(const OutputFolder& output);

 private:
  using Key = std::pair<std::string, std::string>;  // program, kind
  struct Sum {
    std::unique_ptr<ProfileMerger> merger = std::make_unique<ProfileMerger>();
    uint64_t processes = 0;
    int64_t time_nanos = 0;
    std::map<std::string, uint64_t> lost;  // "lost stack-table-full" → 312
    std::set<std::string> intervals, ages_known;
    std::string name, host;
    std::string peak, peak_stacks, command;  // where that is the kind: the comments
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

#endif  // HOLDFAST_REPORT_EXPORT_PROGRAM_FILES_H_
