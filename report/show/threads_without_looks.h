// `holdfast threads` for processes without wall profiles: names, lifetimes, CPU time, waits for locks, and how to get the
// rest.
//
//     threads     names, lifetimes and CPU times at the last snapshot (message ThreadTimes); of a live process: now
//     block       waits by stack: the stack's outermost function gives the names of its threads
#ifndef HOLDFAST_REPORT_SHOW_THREADS_WITHOUT_LOOKS_H_
#define HOLDFAST_REPORT_SHOW_THREADS_WITHOUT_LOOKS_H_

#include <ostream>
#include <string>
#include <string_view>

#include "report/analysis/profiles/profile_set.h"
#include "report/show/text_table.h"
#include "report/show/thread_table.h"

namespace holdfast {

// Returns the exit code.
int ShowThreadsWithoutLooks(const ProfileSet& set, const Style& style, const ThreadsOptions& options, std::ostream& out,
                            std::ostream& err);

// "Cache::Evict" → "Evict()", by its short name.
std::string AsCall(std::string_view function);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_SHOW_THREADS_WITHOUT_LOOKS_H_
