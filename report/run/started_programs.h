// Finds the program that a command starts in the end, from its words and its shell scripts. Runs nothing.
//
//     ./run.sh a b        exec env MODE=fast "$DIR/server" "$@"      → env, ./server
//     env -i timeout 5 ./server                                     → timeout, ./server, without LD_PRELOAD
//     sh -c 'cd / && exec ./server'                                 → ./server
//
// Programs that a script computes, or starts from another language, remain unknown.
#ifndef HOLDFAST_REPORT_RUN_STARTED_PROGRAMS_H_
#define HOLDFAST_REPORT_RUN_STARTED_PROGRAMS_H_

#include <functional>
#include <string>
#include <vector>

namespace holdfast {

// Returns the path of an executable for a word, or "".
using ProgramLookUp = std::function<std::string(const std::string&)>;

// The program that a command runs in the end, after sudo, nice or a shell script.
struct StartedCommand {
  std::vector<std::string> words;  // the program and its arguments; empty: the command itself, or unknown
  // The steps in between, the outermost first: "./run.sh starts it", "sudo starts it without LD_PRELOAD".
  std::vector<std::string> by;
  std::string drops_preload = "";  // the step that removes LD_PRELOAD: "sudo", "env -i", "run.sh"; "": none
  std::string drops_by = "";       // the line of the script that does; "": not a script
  std::string unknown = "";        // a command of a script that could not be read: `exec "$JAVA_HOME/bin/java"`
};

// For a script: its last `exec`, or else its last command that is no mere helper (mkdir, chown, …).
StartedCommand FollowStarters(const std::vector<std::string>& command, const ProgramLookUp& look_up);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_RUN_STARTED_PROGRAMS_H_
