// Until when the newest file of a running process shows what is in use. A snapshot in which nothing changed is not
// written, so the files of a process that grew and is idle now end with its growth. Only its table tells more.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_HELD_UNTIL_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_HELD_UNTIL_H_

#include <cstdint>

#include "report/profile/profile.h"

namespace holdfast {

struct Held {
  int64_t for_ns = 0;      // since the file; 0: something has changed, or nothing is known
  uint64_t snapshots = 1;  // that were due since, and not written
};

// Compares a cumulative file with the table of its process, which may have ended. Takes as long as a snapshot.
using HeldSince = Held (*)(const Profile& newest);
// Sets the function that HeldUntilNow calls. The tool calls this at its start.
void SetHeldSince(HeldSince held);
// Returns for how long `newest` has shown the state of its process; nothing known if SetHeldSince was not called.
Held HeldUntilNow(const Profile& newest);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_HELD_UNTIL_H_
