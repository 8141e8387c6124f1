// Why a run left no profile of its program, and what to do: for the end of `holdfast run`.
#ifndef HOLDFAST_REPORT_PROCESSES_WHY_NOTHING_H_
#define HOLDFAST_REPORT_PROCESSES_WHY_NOTHING_H_

#include <string>
#include <vector>

#include "report/processes/run_finish.h"
#include "report/processes/started_programs.h"

namespace holdfast {

// One or two sentences; "" if the library was in the program and had room for its table: then nothing reached the
// interval. A lower interval helps in that case alone.
std::string WhyNothing(const FinishedRun& run, const StartedCommand& started);

// Executables of `root` and its descendants in which the library is not, by a look at /proc now.
std::vector<std::string> ProgramsWithoutLibrary(pid_t root);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_WHY_NOTHING_H_
