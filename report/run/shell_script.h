// Reads the commands of a shell script from its text, without running anything.
//
//   DIR=$(cd "$(dirname "$0")" && pwd)
//   start() { exec nice "$DIR/server" "$@"; }
//   start --port 7000                               → nice /opt/app/server --port 7000 (exec)
//
// The reader understands literal words, variables set by the script or the environment, arguments, arrays, functions,
// sourced files, and the output of dirname, basename, readlink, realpath, pwd, echo and which. It reads every branch of
// if and case. Words that only a running shell can compute remain unknown.
#ifndef HOLDFAST_REPORT_RUN_SHELL_SCRIPT_H_
#define HOLDFAST_REPORT_RUN_SHELL_SCRIPT_H_

#include <string>
#include <string_view>
#include <vector>

namespace holdfast {

struct ScriptCommand {
  std::vector<std::string> words;    // the program and its arguments, without unknown arguments
  std::string text;                  // as written in the script
  bool is_exec = false;              // the program replaces the shell
  bool is_unknown = false;           // only a running shell can compute the program; `words` is empty
  bool is_inside_word = false;       // in $(…): the script uses its output
  std::string without_library = "";  // what removes LD_PRELOAD, such as "unset LD_PRELOAD"; "": nothing
};

struct ShellScript {
  std::string text;
  std::vector<std::string> arguments;  // $0, which is the path of a file; $1 …
};

// Returns the commands in the order of the text: at most 256 commands of at most 64 KiB.
std::vector<ScriptCommand> CommandsOf(const ShellScript& script);

// "NAME=value": returns the length of NAME. Returns 0 if the word is no assignment.
size_t AssignedName(std::string_view word);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_SHELL_SCRIPT_H_
