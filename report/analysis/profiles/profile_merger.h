// Adds up profiles of different processes, builds or times, as `go tool pprof` does with several files. Functions are
// merged by name and file; locations by object and offset, so that code is the same at every address (ASLR).
//
//   ProfileMerger merger(/*sets=*/2);                 // base and head side by side, for a diff
//   merger.Add(base, VariancesOf(base), 0);
//   merger.Add(head, VariancesOf(head), 1);
//   Merged both = merger.Take();                      // sample types: those of base, then those of head
//
// Mappings that would overlap are shifted by multiples of 2^48 (docs/format.md), so that addresses remain unique.
// Comments are not copied: the caller describes the result. Variances add up. One thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_PROFILE_MERGER_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_PROFILE_MERGER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "report/profile/profile.h"

namespace holdfast {

struct Merged {
  std::shared_ptr<Profile> profile;
  std::vector<double> variances;  // from VariancesOf; empty if any profile had none
};

class ProfileMerger {
 public:
  explicit ProfileMerger(size_t sets = 1);

  // Returns an error if the sample types differ from those of the first profile. `variances` may be empty. `columns`:
  // the sample types to add, or empty for all; the others remain 0.
  absl::Status Add(const Profile& from, std::span<const double> variances, size_t set = 0,
                   std::span<const size_t> columns = {});
  // Subtracts `from` (an earlier snapshot of the same process). No value falls below 0.
  absl::Status Subtract(const Profile& from, std::span<const double> variances, std::span<const size_t> columns);
  // Translates lists of locations of a profile that was added to locations of the sum.
  std::vector<std::vector<uint32_t>> StacksIn(const Profile& from, const std::vector<std::vector<uint32_t>>& stacks);
  // Multiplies all values.
  void Scale(double factor);

  Merged Take();

 private:
  struct Ids;  // maps a profile's indices to those of the sum
  absl::Status AddScaled(const Profile& from, std::span<const double> variances, size_t set,
                         std::span<const size_t> columns, int sign);
  uint32_t MappingOf(const Profile& from, uint32_t mapping, Ids* ids);
  uint32_t FunctionOf(const Profile& from, uint32_t function, Ids* ids);
  uint32_t LocationOf(const Profile& from, uint32_t location, Ids* ids);
  size_t SampleOf(std::span<const uint32_t> frames, std::span<const Profile::Label> labels);

  const size_t sets_;
  size_t types_ = 0;
  bool variances_known_ = true;
  std::shared_ptr<Profile> profile_;
  std::vector<double> variances_;
  std::map<std::tuple<StringId, uint64_t, uint64_t>, uint32_t> mappings_;
  absl::flat_hash_map<std::tuple<StringId, StringId, StringId, int64_t>, uint32_t> functions_;
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> locations_;  // by a hash of what makes them equal
  absl::flat_hash_map<uint64_t, uint32_t> samples_;                 // by hash: the newest with it
  std::vector<uint32_t> older_;                                     // per sample: the next older one with the same hash
};

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_PROFILE_MERGER_H_
