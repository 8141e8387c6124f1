// Decides which processes of a folder still hold what their last profile shows as in use.
//
//     a forking server: 3 processes run, 1,170 have exited      shows the sum over the 3; the others are counted separately
//     no process runs any more                                  shows one moment near the end: the one with the largest sum
//                                                               of the moments at which a long-running process exited
//     a server and a short helper, both exited                  shows the server
//     a shell that executed the program                         counts only the program: it is the same process
//
// Memory that was in use when a process exited is no longer in use. Adding it up over time gives an amount that never
// existed. What was allocated or waited does add up over all processes.
#ifndef HOLDFAST_REPORT_VIEWS_LIVE_PROCESSES_H_
#define HOLDFAST_REPORT_VIEWS_LIVE_PROCESSES_H_

#include <string_view>
#include <vector>

#include "report/profiles/profile_set.h"

namespace holdfast {

// Whether a metric is an amount at one moment: inuse_space, resident_space, alive …
bool IsHeldNow(std::string_view metric);

// Removes the files of processes that exited before the others from `files`, and returns them. Call only for folders,
// in which each file is the newest of its process. `metric`: the values that measure what a process held. Removes
// nothing if no file would remain.
std::vector<const ProfileFile*> TakeEnded(std::vector<const ProfileFile*>* files, size_t metric);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_VIEWS_LIVE_PROCESSES_H_
