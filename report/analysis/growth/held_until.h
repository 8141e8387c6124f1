// Until when the newest file of a running process shows what is in use. A snapshot in which nothing changed is not
// written, so the files of a process that grew and is idle now end with its growth. Only its table tells more.
#ifndef HOLDFAST_REPORT_ANALYSIS_GROWTH_HELD_UNTIL_H_
#define HOLDFAST_REPORT_ANALYSIS_GROWTH_HELD_UNTIL_H_

#include <cstdint>

#include "report/profile/profile.h"

namespace holdfast {

// Compares a cumulative file with the table of its process, which may have ended. Returns for how long the file has shown
// the state of its process, in nanoseconds; 0: something has changed, or nothing is known. Takes as long as a snapshot.
using HeldFor = int64_t (*)(const Profile& newest);
// Sets the function that HeldForNs calls. The tool calls this at its start.
void SetHeldFor(HeldFor held);
// Returns 0 if SetHeldFor was not called.
int64_t HeldForNs(const Profile& newest);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_GROWTH_HELD_UNTIL_H_
