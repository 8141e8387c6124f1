// Decides whether a program would notice the exporter as its child, and which program. sampler/contract/orphan_reaper.h
// says when that can happen. An ancestor that is on none of the lists there is judged by
//   1. its table, if it is profiled: the library sees prctl(PR_SET_CHILD_SUBREAPER);
//   2. its executable and libraries: whether their code calls prctl(PR_SET_CHILD_SUBREAPER), or calls prctl or syscall
//      with arguments that cannot be determined from the code (elf/call_arguments.h);
//   3. for an interpreter: its command line, the script and the script's modules (script_calls.h). For python this counts
//      only if a module that calls foreign code is loaded. A JVM with such a library loaded may take orphans.
// An ancestor that cannot be examined at all may take orphans if it runs in a container; elsewhere it does not.
#ifndef HOLDFAST_REPORT_RUN_ORPHAN_PARENT_H_
#define HOLDFAST_REPORT_RUN_ORPHAN_PARENT_H_

#include <optional>
#include <string>
#include <vector>

namespace holdfast {

struct OrphanParent {
  std::string name;  // "supervisord (pid 1)"; "a process that cannot be seen"
};

// Returns the process that would notice an orphan of `process` ("self" or a pid). `tables`: folders with the tables of
// its ancestors.
std::optional<OrphanParent> ParentOfOrphans(const std::string& process, const std::vector<std::string>& tables);

// Returns the reaper that ends the container as soon as its own child exits ("tini (pid 1)"), unless `holdfast run`
// runs between that reaper and `process`.
std::optional<std::string> EndsWithProgram(const std::string& process);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_ORPHAN_PARENT_H_
