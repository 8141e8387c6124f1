// Which processes of a folder still hold what their last profile says is in use.
//
//     a forking server: 3 processes run, 1,170 have ended       the sum of what the 3 hold; the others are counted apart
//     nothing runs any more                                     what was held at one moment near the end: of all moments
//                                                               at which a process ended that at which the sum is largest
//     a shell that executed the program                         only the program counts: it is the same process
//
// What was in use when a process ended is in use no more, so adding it up over time gives no amount that ever was. What
// was allocated, or waited, adds up over all processes.
#ifndef HOLDFAST_REPORT_VIEWS_LIVE_PROCESSES_H_
#define HOLDFAST_REPORT_VIEWS_LIVE_PROCESSES_H_

#include <string_view>
#include <vector>

#include "report/profiles/profile_set.h"

namespace holdfast {

// Whether a metric is an amount at one moment: inuse_space, resident_space, alive …
bool IsHeldNow(std::string_view metric);

// Takes the files of processes that ended before the others out of `files`, and returns them. Only of folders, where each
// file is a process's newest. `metric`: which values say how much a process held. Takes none out where that would leave none.
std::vector<const ProfileFile*> TakeEnded(std::vector<const ProfileFile*>* files, size_t metric);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_LIVE_PROCESSES_H_
