// The modules of a running process, by its memory map: for stacks that are taken from outside, which may pass through objects that no
// stack of the table has passed through yet.
#ifndef HOLDFAST_REPORT_OUTSIDE_MODULES_OF_PROCESS_H_
#define HOLDFAST_REPORT_OUTSIDE_MODULES_OF_PROCESS_H_

#include <sys/types.h>

#include <vector>

#include "report/table/snapshot.h"
#include "report/table/thread_status.h"

namespace holdfast {

// Those that are not among `modules` yet, read from its headers in memory. Adds nothing where the kernel does not let us look.
void AddModulesOf(pid_t pid, const ProcessMemory& memory, std::vector<ModuleInfo>* modules);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OUTSIDE_MODULES_OF_PROCESS_H_
