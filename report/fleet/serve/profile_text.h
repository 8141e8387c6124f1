// Formats a profile as text, as Go does for debug=1 and as pprof reads it: `heap profile: …`, `--- mutex:`.
//
//   1: 4096 [3: 12288] @ 0x55d0c1a2b3c4 0x55d0c1a2b000
//   #   0x55d0c1a2b3c4   make_buffer   /src/server.cc:42
// Values are estimates of the real amounts, not raw samples: the period in the first line makes pprof scale nothing.
// Addresses are return addresses, one more than those of the profile. Offsets in functions are unknown and omitted.
#ifndef HOLDFAST_REPORT_FLEET_SERVE_PROFILE_TEXT_H_
#define HOLDFAST_REPORT_FLEET_SERVE_PROFILE_TEXT_H_

#include <string>

#include "report/profile/profile.h"

namespace holdfast {

// `file`: index into kFileKinds. Resident profiles look like heap profiles: what is resident [of what is in use].
std::string ProfileText(const Profile& profile, int file);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_FLEET_SERVE_PROFILE_TEXT_H_
