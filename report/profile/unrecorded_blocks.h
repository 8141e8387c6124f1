// What is in use and missing in a profile of the heap or of mappings: everything from before a fork or an attach, what
// found no room in the table, and what was allocated while heap sampling was off. What is in use then seems to rise
// while new blocks replace missing ones, and seems constant while new ones are missing. Pure functions, any thread.
#ifndef HOLDFAST_REPORT_PROFILE_UNRECORDED_BLOCKS_H_
#define HOLDFAST_REPORT_PROFILE_UNRECORDED_BLOCKS_H_

#include <cstdint>
#include <vector>

#include "report/profile/profile.h"

namespace holdfast {

// Whether `holdfast attach` began to record the process itself, not the one that forked it.
bool WasAttached(const Profile& profile);

// Whether the process was forked or attached. Its older blocks are in no profile.
bool LacksOlderBlocks(const Profile& profile);

// Returns how many samples count as freed, or in no sum, because the table was full.
uint64_t SamplesLostIn(const Profile& profile);

// When heap sampling was off: nanoseconds since 1970. INT64_MAX: it still is.
struct TimeOff {
  int64_t from_ns = 0, to_ns = 0;
};
std::vector<TimeOff> TimesOffIn(const Profile& profile);  // oldest first

// Whether any of these is the case.
bool LacksBlocks(const Profile& profile);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROFILE_UNRECORDED_BLOCKS_H_
