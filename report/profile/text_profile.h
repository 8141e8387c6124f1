// Reads text profiles of other tools: heaps of gperftools and jemalloc, contention of gperftools, and what their HTTP
// pages return.
//
//     heap profile: 3: 1536 [9: 4608] @ heap_v2/524288      gperftools: in use [allocated], and how it was sampled
//       2: 1024 [6: 3072] @ 0x4006b1 0x400712
//     MAPPED_LIBRARIES:
//
//     heap_v2/524288                                        jemalloc (jeprof)
//       t*: 3: 1536 [0: 0]
//     @ 0x4006b1 0x400712
//       t*: 2: 1024 [0: 0]
//       t0: 2: 1024 [0: 0]
//
//     --- contention:                                       gperftools: cycles waited and how often
//     cycles/second = 2000000000
//     sampling period = 100
//       200000 5 @ 0x4006b1 0x400712
//
// Values are scaled as in `go tool pprof`: each object of a stack weighs 1/(1 − exp(−average size / interval)).
// Addresses are return addresses; 1 is subtracted, as in our own files. `holdfast symbolize` adds names.
#ifndef HOLDFAST_REPORT_PROFILE_TEXT_PROFILE_H_
#define HOLDFAST_REPORT_PROFILE_TEXT_PROFILE_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "report/profile/profile.h"

namespace holdfast {

// Whether the bytes begin like one of these.
bool IsTextProfile(std::string_view bytes);
// `name`: the beginning of an error message.
absl::StatusOr<Profile> DecodeTextProfile(std::string_view bytes, std::string_view name);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_TEXT_PROFILE_H_
