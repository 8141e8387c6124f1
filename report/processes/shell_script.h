// The commands of a shell script, read from its text. Nothing of it is run.
//
//   DIR=$(cd "$(dirname "$0")" && pwd)
//   start() { exec nice "$DIR/server" "$@"; }
//   start --port 7000                               → nice /opt/app/server --port 7000 (exec)
//
// Known are literal words, variables that the script or the environment sets, arguments, arrays, functions, files that the
// script sources, and what dirname, basename, readlink, realpath, pwd, echo and which print. Every branch of if and case is
// read. Words that only a running shell knows stay unknown.
#ifndef HOLDFAST_REPORT_PROCESSES_SHELL_SCRIPT_H_
#define HOLDFAST_REPORT_PROCESSES_SHELL_SCRIPT_H_

#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

struct ScriptCommand {
  std::vector<std::string> words;    // the program and its arguments; unknown arguments are left out
  std::string text;                  // as the script has it
  bool is_exec = false;              // the program replaces the shell
  bool is_unknown = false;           // only a running shell knows the program; `words` is empty
  bool is_inside_word = false;       // of $(…): the script wants what it prints
  std::string without_library = "";  // what takes LD_PRELOAD away, such as "unset LD_PRELOAD"; "": nothing does
};

struct ShellScript {
  std::string text;
  std::vector<std::string> arguments;  // $0, which is the path of a file; $1 …
};

// In the order of the text. At most 256 commands of at most 64 KiB.
std::vector<ScriptCommand> CommandsOf(const ShellScript& script);

// "NAME=value": the length of NAME; 0: no assignment.
size_t AssignedName(std::string_view word);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_SHELL_SCRIPT_H_
