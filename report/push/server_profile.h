// A profile as Pyroscope takes it, by its published limits.
//
//   numeric labels   left out, and what is equal without them summed, as the server would do
//   too many samples, too many bytes
//                    several profiles, a millisecond apart: of two of one series and time the server may take one for a
//                    copy of the other
//   too many labels  of those that the program gives its samples the last by name are left out, and what is equal without them
//                    summed: the server makes a series of each set, and refuses the profile where one has too many; counted
//   too deep         the innermost frames are cut, as the server would do; counted
//   too large by itself
//                    one sample: left out and counted
#ifndef HOLDFAST_REPORT_PUSH_SERVER_PROFILE_H_
#define HOLDFAST_REPORT_PUSH_SERVER_PROFILE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "report/pprof/profile.h"

namespace holdfast {

struct ServerLimits {  // the defaults of Pyroscope 1 and 2
  size_t samples = 16'000;
  size_t bytes = 4 << 20;  // uncompressed
  size_t depth = 1000;
  size_t sample_labels = 20;  // of a sample, beside those of its process: SampleLabelsBeside
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

// The unpacked size of a profile, as limits count it.
size_t UnpackedBytes(std::string_view gzip);

ServerProfiles ForServer(const Profile& profile, const ServerLimits& limits = {});

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PUSH_SERVER_PROFILE_H_
