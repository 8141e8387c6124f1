// Explains why a run left no profile of its program, and what to do. Printed at the end of `holdfast run`.
#ifndef HOLDFAST_REPORT_RUN_WHY_NOTHING_H_
#define HOLDFAST_REPORT_RUN_WHY_NOTHING_H_

#include <string>
#include <vector>

#include "report/run/run_finish.h"
#include "report/run/started_programs.h"

namespace holdfast {

// Returns one or two sentences. Returns "" if the program had loaded the library and there was room for its table: then
// nothing reached the sampling interval. Only in that case does a lower interval help.
std::string WhyNothing(const FinishedRun& run, const StartedCommand& started);

// Returns what the heap profile lacks because of an allocator that is linked into the program, or "".
std::string MissingFromHeap(const FinishedRun& run, const StartedCommand& started);

// Reads /proc now. Returns the executables of `root` and its descendants that run without the library.
std::vector<std::string> ProgramsWithoutLibrary(pid_t root);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_WHY_NOTHING_H_
