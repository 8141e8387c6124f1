// Decides which processes of a folder still hold what their last profile shows as in use.
//
//     a forking server: 3 processes run, 1,170 have exited      shows the sum over the 3; the others are counted separately
//     no process runs any more                                  shows one moment near the end: the one with the largest sum
//                                                               of the moments at which a long-running process exited
//     a server and a short helper, both exited                  shows the server
//     a shell that executed the program                         counts only the program: it is the same process
//
// What was in use when a process ended is in use no more, so adding it up over time gives no amount that ever was. What
// was allocated, or waited, adds up over all processes. The one rule for every view, for diff and merge, and for the page.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_LIVE_PROCESSES_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_LIVE_PROCESSES_H_

#include <vector>

#include "report/analysis/profiles/profile_set.h"

namespace holdfast {

// Takes the files of processes that ended before the others out of `files`, and returns them. Only of folders, where each
// file is a process's newest, and of a kind that has such amounts. Takes none out where that would leave none.
std::vector<const ProfileFile*> TakeEnded(std::vector<const ProfileFile*>* files);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_LIVE_PROCESSES_H_
