// What `run` finds out about a program before it starts it: where it is, whether it can be executed at all, and whether
// the library can be loaded into it. A profile is not promised where none can come.
#ifndef HOLDFAST_REPORT_PROCESSES_PROGRAM_CHECK_H_
#define HOLDFAST_REPORT_PROCESSES_PROGRAM_CHECK_H_

#include <string>
#include <vector>

#include "report/processes/started_programs.h"

namespace holdfast {

struct ProgramCheck {
  int exit_code = 0;         // 0: it can be started. Else 125 not profilable, 126 not executable, 127 not found
  std::string message = {};  // why not; or, with 0, why it runs without a profile
  std::string path = {};     // what to execute
  std::vector<std::string> arguments = {};  // with argv[0], as the program is to get them
  bool recordable = true;                   // false: start it without the library
};

// `command`: the program, looked up in `path_variable` (null: the system's default) as execvp does, and its arguments.
// `library`: the path of libholdfast.so, for messages.
ProgramCheck CheckProgram(const std::vector<std::string>& command, const char* path_variable,
                          const std::string& library);

// What finds programs as execvp does in `path_variable`; null: the system's default.
ProgramLookUp LookUpIn(const char* path_variable);

// The message of one line for an execve that failed with `error` all the same, and its exit code.
ProgramCheck ExecFailed(const std::string& program, int error);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_PROGRAM_CHECK_H_
