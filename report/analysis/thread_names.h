// Finds the names of threads (pthread_setname_np) for their start functions.
//
// Stacks do not identify threads. A snapshot records names of threads that had taken samples
// (report/observe/observe.h), and of threads that waited at that time (waiting_list.h). A thread that began and
// ended between two snapshots has no name. Any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_THREAD_NAMES_H_
#define HOLDFAST_REPORT_ANALYSIS_THREAD_NAMES_H_

#include <map>
#include <set>
#include <string>

#include "report/profile/profile.h"

namespace holdfast {

// Keyed by the thread start of a stack (thread_start.h). Without names inherited from the program, which are not
// informative.
using ThreadNames = std::map<std::string, std::set<std::string>>;

void AddThreadNames(const Profile& profile, ThreadNames* names);

// "worker_libevent  (mc-worker, mc-maint)": at most four names; only the function if no name is known. Names that
// differ only in their last number are merged: "io-0 … io-31".
std::string WithThreadNames(const std::string& start, const ThreadNames& names);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_THREAD_NAMES_H_
