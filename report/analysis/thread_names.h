// What threads were called (pthread_setname_np), beside the functions that they were started with.
//
// Stacks do not say whose they are; what a snapshot says of threads that had taken samples (report/export/running_program.h), and
// of those that waited then (waiting_list.h), does, with names. A thread that began and ended between two snapshots has none.
// Any thread.
#ifndef HOLDFAST_REPORT_ANALYSIS_THREAD_NAMES_H_
#define HOLDFAST_REPORT_ANALYSIS_THREAD_NAMES_H_

#include <map>
#include <set>
#include <string>

#include "report/pprof/profile.h"

namespace holdfast {

// By what thread_start.h says of a stack. Without the name that threads have from the program, which says nothing.
using ThreadNames = std::map<std::string, std::set<std::string>>;

void AddThreadNames(const Profile& profile, ThreadNames* names);

// "worker_libevent  (mc-worker, mc-maint)": at most four names; the function alone where none is known. Names that differ in
// their last number only are one: "io-0 … io-31".
std::string WithThreadNames(const std::string& start, const ThreadNames& names);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_ANALYSIS_THREAD_NAMES_H_
