// Lists the modules of a running process from its memory map. Stacks walked from outside may pass through objects that
// no stack of the table contains.
#ifndef HOLDFAST_REPORT_OBSERVE_OUTSIDE_MODULES_OF_PROCESS_H_
#define HOLDFAST_REPORT_OBSERVE_OUTSIDE_MODULES_OF_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "report/observe/table/snapshot.h"
#include "report/observe/table/thread_status.h"

namespace holdfast {

// Adds the modules that are not yet in `modules`, from their headers in memory. Adds nothing if the kernel does not
// permit reading.
void AddModulesOf(pid_t pid, const ProcessMemory& memory, std::vector<ModuleInfo>* modules);
// The same from the addresses where first pages of files are mapped, with their paths.
void AddModulesAt(const std::vector<std::pair<uint64_t, std::string>>& first_pages, const ProcessMemory& memory,
                  std::vector<ModuleInfo>* modules);
// Returns whether the C library is musl.
bool UsesMusl(const std::vector<ModuleInfo>& modules);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_OBSERVE_OUTSIDE_MODULES_OF_PROCESS_H_
