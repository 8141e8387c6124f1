// The part of `holdfast doctor` that looks at the program's files: which allocator serves it, which objects have names
// for their functions, which waits for locks can be seen.
#ifndef HOLDFAST_REPORT_PROCESSES_DOCTOR_OBJECTS_H_
#define HOLDFAST_REPORT_PROCESSES_DOCTOR_OBJECTS_H_

#include <set>
#include <string>
#include <vector>

#include "report/processes/findings.h"

namespace holdfast {

// `objects`: paths of the program and its libraries in the order in which they are searched; `root` goes before each
// path. `library`: our own, whose exports are what can be seen.
void DescribeObjects(const std::vector<std::string>& objects, const std::string& root, const std::string& library,
                     Findings* findings);

// Notes the modules of a running program that call another free than the library's, by the words through which they call it:
// plugins that were loaded with RTLD_DEEPBIND, or that have a free of their own. `root` goes before each path; `noted`: those
// that need no note.
void DescribeFreesElsewhere(int pid, const std::string& root, const std::set<std::string>& noted, Findings* findings);

// What the dynamic loader would load for `program` in this environment; only the program itself if it does not say.
// The program is not started.
std::vector<std::string> ObjectsOfProgram(const std::string& program);
// What a process has mapped, the executable first.
std::vector<std::string> ObjectsOfProcess(int pid);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_DOCTOR_OBJECTS_H_
