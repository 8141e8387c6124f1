// Whether a program would notice the exporter as its child, and which one: sampler/spawn/orphan_reaper.h says when that can
// be. An ancestor that is on none of the lists there is judged by
//   1. its table, if it is profiled: the library sees prctl(PR_SET_CHILD_SUBREAPER);
//   2. its executable and its libraries: whether their code calls prctl(PR_SET_CHILD_SUBREAPER), or prctl or syscall with
//      arguments that cannot be read from the code (elf/call_arguments.h);
//   3. for an interpreter, the command line, the script and its modules (script_calls.h); for python only if it has a module
//      loaded that calls foreign code. A JVM that has such a library loaded may take orphans.
// An ancestor that cannot be read at all may take orphans if it runs in a container; elsewhere it does not.
#ifndef HOLDFAST_REPORT_PROCESSES_ORPHAN_PARENT_H_
#define HOLDFAST_REPORT_PROCESSES_ORPHAN_PARENT_H_

#include <optional>
#include <string>
#include <vector>

namespace holdfast {

struct OrphanParent {
  std::string name;  // "supervisord (pid 1)"; "a process that cannot be seen"
};

// The process that would notice an orphan of `process` ("self" or a pid). `tables`: folders of the tables of its ancestors.
std::optional<OrphanParent> WhoNoticesOrphans(const std::string& process, const std::vector<std::string>& tables);

// The reaper that ends the container as soon as its own child ends ("tini (pid 1)"), unless `holdfast run` is between that
// and `process`.
std::optional<std::string> WhoEndsWithTheProgram(const std::string& process);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_ORPHAN_PARENT_H_
