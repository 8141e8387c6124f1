// Decides which processes of a folder still hold what their last profile shows as in use.
//
//     a forking server: 3 processes run, 1,170 have exited      shows the sum over the 3; the others are counted separately
//     no process runs any more                                  shows one moment near the end: the one with the largest sum
//                                                               of the moments at which a long-running process exited
//     a server and a short helper, both exited                  shows the server
//     a shell that executed the program                         counts only the program: it is the same process
//
// Memory in use ends with its process, so a sum over processes of different times is an amount that never existed.
// Allocations and waits of all processes are added up. All views, diff, merge and the page use this one rule.
#ifndef HOLDFAST_REPORT_ANALYSIS_PROFILES_LIVE_PROCESSES_H_
#define HOLDFAST_REPORT_ANALYSIS_PROFILES_LIVE_PROCESSES_H_

#include <vector>

#include "report/analysis/profiles/profile_set.h"

namespace holdfast {

// Takes the files of processes that exited before the others out of `files`, and returns them. Only for folders, in which
// each file is a process's newest, and for kinds with amounts in use. Takes none out if that would leave none.
std::vector<const ProfileFile*> TakeEnded(std::vector<const ProfileFile*>* files);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_PROFILES_LIVE_PROCESSES_H_
