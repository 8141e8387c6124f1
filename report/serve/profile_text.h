// A profile as text, as Go writes it for debug=1 and pprof reads it: `heap profile: …`, `--- mutex:`.
//
//   1: 4096 [3: 12288] @ 0x55d0c1a2b3c4 0x55d0c1a2b000
//   #   0x55d0c1a2b3c4   make_buffer   /src/server.cc:42
// Values are what they stand for, not samples: the period in the first line is such that pprof scales nothing. Addresses are
// return addresses, one more than those of the profile. Offsets in functions are not known and not written.
#ifndef HOLDFAST_REPORT_SERVE_PROFILE_TEXT_H_
#define HOLDFAST_REPORT_SERVE_PROFILE_TEXT_H_

#include <string>

#include "report/pprof/profile.h"

namespace holdfast {

// `file`: index into kFileKindNames. Of what is resident, as of a heap: what is resident [of what is in use].
std::string ProfileText(const Profile& profile, int file);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SERVE_PROFILE_TEXT_H_
