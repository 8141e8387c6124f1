// Converts a profile to one or more that Pyroscope accepts, by its published limits.
//
//   numeric labels   removed; samples that become equal are summed, as the server would do
//   too many samples, too many bytes
//                    split into several profiles, a millisecond apart: the server may take two profiles with one series
//                    and time for copies of each other
//   too many labels  the server makes a series of each combination, and rejects the profile if a series has too many
//                    labels. Removes the last of the program's own labels by name, and sums samples that become equal;
//                    counted
//   too deep         removes the innermost frames, as the server would do; counted
//   too large by itself
//                    removes the sample; counted
#ifndef HOLDFAST_REPORT_FLEET_PUSH_SERVER_PROFILE_H_
#define HOLDFAST_REPORT_FLEET_PUSH_SERVER_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/profile/profile.h"

namespace holdfast {

struct ServerLimits {  // the defaults of Pyroscope 1 and 2
  size_t samples = 16'000;
  size_t bytes = 4 << 20;  // uncompressed
  size_t depth = 1000;
  size_t sample_labels = 20;  // per sample, in addition to the labels of the process: SampleLabelsBeside
};

struct ServerProfiles {
  struct Part {
    std::string pprof;  // gzip
    int64_t time_nanos = 0;
  };
  std::vector<Part> parts;
  uint64_t cut_stacks = 0, too_large = 0, cut_labels = 0;  // samples
  std::vector<std::string> left_out;                       // names of labels
};

// Returns the uncompressed size of a profile, to which the limits apply.
size_t UnpackedBytes(std::string_view gzip);

ServerProfiles ForServer(const Profile& profile, const ServerLimits& limits = {});

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_PUSH_SERVER_PROFILE_H_
