// Checks a program before `run` starts it: its path, whether it can be executed at all, and whether it can load
// the library. `run` must not promise a profile that cannot be written.
#ifndef HOLDFAST_REPORT_RUN_PROGRAM_CHECK_H_
#define HOLDFAST_REPORT_RUN_PROGRAM_CHECK_H_

#include <string>
#include <vector>

#include "report/run/started_programs.h"

namespace holdfast {

struct ProgramCheck {
  int exit_code = 0;         // 0: can be started. Else 125 not profilable, 126 not executable, 127 not found
  std::string message = {};  // why not; with exit code 0: why it runs without a profile
  std::string path = {};     // the file to execute
  std::vector<std::string> arguments = {};  // for the program, including argv[0]
  bool recordable = true;                   // false: start the program without the library
};

// `command`: the program and its arguments. The program is looked up in `path_variable` (null: the system's default),
// as execvp does. `library`: the path of libholdfast.so, for messages.
ProgramCheck CheckProgram(const std::vector<std::string>& command, const char* path_variable,
                          const std::string& library);

// Returns a function that looks up programs in `path_variable` as execvp does. Null: the system's default.
ProgramLookUp LookUpIn(const char* path_variable);

// Returns the message (one line) and the exit code for an execve that failed with `error` in spite of the check.
ProgramCheck ExecFailed(const std::string& program, int error);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_PROGRAM_CHECK_H_
