// Which programs a command starts, as its words and its shell scripts say. Nothing is run.
//
//     ./run.sh a b        exec env MODE=fast "$DIR/server" "$@"      → env, ./server
//     env -i timeout 5 ./server                                     → timeout, ./server, without LD_PRELOAD
//     sh -c 'cd / && exec ./server'                                 → ./server
//
// What a script computes, or starts by another language, stays unknown.
#ifndef HOLDFAST_REPORT_PROCESSES_STARTED_PROGRAMS_H_
#define HOLDFAST_REPORT_PROCESSES_STARTED_PROGRAMS_H_

#include <functional>
#include <string>
#include <vector>

namespace holdfast {

// The path of a word that can be executed, else "".
using ProgramLookUp = std::function<std::string(const std::string&)>;

struct StartedProgram {
  std::string path;    // as the command or the script names it, looked up in PATH
  std::string script;  // the script that starts it; "": the command itself
};

// All programs that get LD_PRELOAD. At most 256 words are looked up.
std::vector<StartedProgram> ProgramsStartedBy(const std::vector<std::string>& command, const ProgramLookUp& look_up);

// The program that the command is about: what sudo, nice or a shell script starts in the end.
struct StartedCommand {
  std::vector<std::string> words;  // the program and its arguments; empty: the command itself, or not known
  // What is between, the outermost first: "./run.sh starts it", "sudo starts it without LD_PRELOAD".
  std::vector<std::string> by;
  std::string drops_preload = "";  // which of these takes LD_PRELOAD away: "sudo", "env -i", "run.sh"; "": none
  std::string drops_by = "";       // the line of the script that does; "": it is no script
  std::string unknown = "";        // the command of a script that could not be read: `exec "$JAVA_HOME/bin/java"`
};

// Of a script it is the last `exec`, or else the last command that is no mere helper (mkdir, chown, …).
StartedCommand FollowStarters(const std::vector<std::string>& command, const ProgramLookUp& look_up);

}  // namespace holdfast

#endif  // HOLDFAST_REPORT_PROCESSES_STARTED_PROGRAMS_H_
