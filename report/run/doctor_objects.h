// The part of `holdfast doctor` that reads the program's files: which allocator serves the program, which objects have
// function names, and which lock waits can be seen.
#ifndef HOLDFAST_REPORT_RUN_DOCTOR_OBJECTS_H_
#define HOLDFAST_REPORT_RUN_DOCTOR_OBJECTS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "report/run/findings.h"

namespace holdfast {

// What a process's table says about an allocator in its executable: nothing, because there is no table or no heap profile; it
// describes it; or it says that none was redirected.
enum class TableOnAllocator : uint8_t { kNothing, kDescribes, kHasNone };

// Whether holdfast attach began to record the process, and whether holdfast detach has ended that.
enum class AttachState : uint8_t { kNone, kAttached, kDetached };

// `objects`: paths of the program and its libraries in the dynamic loader's search order. `root` is prepended to each
// path. `library`: our own library; its exports determine what can be seen. `unbound`: what OpenMpUsersUnseen returns. Returns whether the file's own allocator is redirected when it starts.
bool DescribeObjects(const std::vector<std::string>& objects, const std::string& root, const std::string& library,
                     const std::set<std::string>& unbound, Findings* findings,
                     TableOnAllocator table = TableOnAllocator::kNothing, AttachState attachment = AttachState::kNone);

// Returns the modules of a running process that call an OpenMP runtime without the library's wrappers: the library sets
// the entries of the objects of the start, not those of plugins.
std::set<std::string> OpenMpUsersUnseen(int pid, const std::string& root);

// Adds a note for each module of a running program that calls another free than the library's. Such plugins were loaded
// with RTLD_DEEPBIND or define their own free. Reads the words through which each module calls free. `root` is
// prepended to each path; modules in `noted` get no note.
void DescribeFreesElsewhere(int pid, const std::string& root, const std::set<std::string>& noted, Findings* findings);

// Returns what the dynamic loader would load for `program` in this environment, or only the program itself if the
// loader does not list it. Does not start the program.
std::vector<std::string> ObjectsOfProgram(const std::string& program);
// Returns the program files that a process has mapped, in the order in which names are searched; the executable is first.
std::vector<std::string> ObjectsOfProcess(int pid);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_DOCTOR_OBJECTS_H_
